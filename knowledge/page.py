"""Pages and skills, parsed from Markdown files with front matter."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from . import front_matter
from .errors import PageError
from .families import FAMILIES

FOLDERS: dict[str, str] = {
    "constraints": "constraints",
    "guidance": "guidance",
    "hardware": "hardware",
    "samples": "sample",
    "skills": "skill",
}
"""First part of a page id -> category, in the order of the index."""

ROLES = ("", "pitfall")
"""The role of a page besides its category: "pitfall" for one about a pitfall of a compiler, a
runtime or a version. Asks treat it as a special page."""

_FIELDS = frozenset(
    {"title", "category", "role", "summary", "applies_to", "families", "signals", "keywords",
     "asked_as", "preconditions",
     "inherits", "sources"}
)  # fmt: skip
_SKILL_FIELDS = _FIELDS | {"pattern", "templates", "evidence"}
_APPLIES_TO = ("targets", "products", "languages", "versions", "features")
_SOURCE = re.compile(r"https?://\S+|measured: .+|derived: .+")
_EVIDENCE = re.compile(r"(measured|no proven gain|none recorded): .+")
_ID = re.compile(r"[a-z0-9_-][a-z0-9_.-]*(/[a-z0-9_-][a-z0-9_.-]*)+")
_TARGET = re.compile(r"[a-z]+(:[a-z0-9_*]+)?")
_LINK = re.compile(r"\]\(([^()\s]+)\)")
_FENCE = re.compile(r"^(```|~~~)", re.MULTILINE)


@dataclass(frozen=True)
class Page:
    """One page.

    id: its path without suffix, e.g. "guidance/vectorization". role: one of ROLES. signals: the
    findings that lead here, the most specific first. targets: "cuda", "cuda:sm_90", with * at the
    end for a family of names; empty for every target. products: names of devices, for readers.
    languages: empty for every language. features: those of the processor that the page needs, as
    named by an environment ("avx512f"). versions: language or tool -> the versions that the facts
    apply to. families: operator families, of families.FAMILIES. asked_as: typical short questions,
    and messages of tools. preconditions: when the advice applies. inherits: ids of the broader
    hardware pages whose facts apply here, too. sources: addresses, or "measured: ENVIRONMENT:
    WHAT". body: Markdown from the first heading on, links between pages rewritten to page ids.
    links: those ids. source: the file, for errors. standing: the factor on its rank: 1, less (above
    0) for a skill whose uses failed.
    """

    id: str
    title: str
    category: str
    summary: str
    body: str
    signals: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    languages: tuple[str, ...] = ()
    features: tuple[str, ...] = ()
    keywords: tuple[str, ...] = ()
    inherits: tuple[str, ...] = ()
    role: str = ""
    products: tuple[str, ...] = ()
    versions: dict[str, str] = field(default_factory=dict)
    families: tuple[str, ...] = ()
    asked_as: tuple[str, ...] = ()
    preconditions: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    links: tuple[str, ...] = ()
    source: str = ""
    standing: float = 1.0


@dataclass(frozen=True)
class Skill:
    """A reusable pattern: its page, the text of every file in its folder by name, and which of them
    are kernel templates.

    pattern: the free mapping of the front matter for the tasks that the skill fits; the code that
    matches skills to tasks interprets it. evidence: its measurements, "measured: ENVIRONMENT:
    WHAT", "no proven gain: ENVIRONMENT: WHAT" where no interval lies above 1, or "none recorded:
    WHY".
    """

    id: str
    page: Page
    files: dict[str, str] = field(default_factory=dict)
    templates: tuple[str, ...] = ()
    pattern: dict[str, Any] = field(default_factory=dict)
    evidence: tuple[str, ...] = ()


def parse_page(page_id: str, text: str, source: str = "") -> Page:
    """Parse a page. Raises PageError naming the file (`source`, or the id) and the field."""
    where = source or page_id
    fields, body = front_matter.split(text, where)
    front_matter.check_names(
        fields, _SKILL_FIELDS if page_id.startswith("skills/") else _FIELDS, where
    )
    return _page(page_id, fields, body, where)


def parse_skill(skill_id: str, text: str, files: Mapping[str, str], source: str = "") -> Skill:
    """Parse a skill from its page text and the other files of its folder (name -> text). Raises
    PageError."""
    where = source or skill_id
    page = parse_page(skill_id, text, source)
    if page.category != "skill":
        raise PageError(
            f"{where}: a skill's id must begin with 'skills/'.",
            f"Use, for example, 'skills/{skill_id.split('/')[-1]}'.",
        )
    fields, _ = front_matter.split(text, where)
    templates = front_matter.words(fields, "templates", where)
    for name in templates:
        if name not in files:
            present = ", ".join(sorted(files)) or "none"
            raise PageError(
                f"{where}: field 'templates' names {name!r}, which the folder lacks.",
                f"Files there: {present}.",
            )
    evidence = front_matter.words(fields, "evidence", where)
    for line in evidence:
        if not _EVIDENCE.match(line):
            raise PageError(
                f"{where}: field 'evidence': {line!r:.80} is not a measurement.",
                "Write 'measured: ENVIRONMENT: WHAT', 'no proven gain: ENVIRONMENT: WHAT', or "
                "'none recorded: WHY'.",
            )
    return Skill(
        skill_id,
        page,
        dict(files),
        templates,
        front_matter.mapping(fields, "pattern", where),
        evidence,
    )


def _page(page_id: str, fields: Mapping[str, Any], body: str, where: str) -> Page:
    title = front_matter.one_line(fields, "title", where, required=True)
    applies_to = front_matter.mapping(fields, "applies_to", where)
    front_matter.check_names(applies_to, _APPLIES_TO, f"{where}: applies_to")
    targets = front_matter.words(applies_to, "targets", where)
    for target in targets:
        if not _TARGET.fullmatch(target):
            raise PageError(
                f"{where}: field 'targets': {target!r} is not a target.",
                "Write cpu, cuda, cuda:sm_90, hip:gfx94* …",
            )
    versions = front_matter.mapping(applies_to, "versions", where)
    sources = front_matter.words(fields, "sources", where)
    _check(sources, where)
    if body.splitlines()[:1] != [f"# {title}"]:
        raise PageError(
            f"{where}: the text must begin with the title as its heading.",
            f"First line after the front matter: '# {title}'.",
        )
    text, links = resolve_links(page_id, body)
    return Page(
        id=page_id,
        title=title,
        category=_category(page_id, fields, where),
        summary=front_matter.one_line(fields, "summary", where, required=True),
        body=text,
        signals=front_matter.words(fields, "signals", where),
        targets=targets,
        languages=front_matter.words(applies_to, "languages", where),
        features=front_matter.words(applies_to, "features", where),
        role=front_matter.choice(fields, "role", ROLES, where),
        products=front_matter.words(applies_to, "products", where),
        versions={name: str(value) for name, value in versions.items()},
        families=front_matter.choices(fields, "families", FAMILIES, where),
        asked_as=front_matter.words(fields, "asked_as", where),
        preconditions=front_matter.words(fields, "preconditions", where),
        sources=sources,
        keywords=front_matter.words(fields, "keywords", where),
        inherits=front_matter.words(fields, "inherits", where),
        links=links,
        source=where,
    )


def _check(sources: tuple[str, ...], where: str) -> None:
    for source in sources:
        if not _SOURCE.match(source):
            raise PageError(
                f"{where}: field 'sources': {source!r:.80} is neither an address nor a "
                "measurement.",
                "Write 'https://… : what it supports', 'measured: ENVIRONMENT: WHAT' or 'derived: "
                "FROM WHAT'.",
            )


def _category(page_id: str, fields: Mapping[str, Any], where: str) -> str:
    folder = page_id.split("/")[0]
    if folder not in FOLDERS or not _ID.fullmatch(page_id):
        raise PageError(
            f"{where}: {page_id!r} is not a page id.",
            f"A page is in one of the folders {', '.join(FOLDERS)}; names have lower case letters, "
            "digits, '_', '-' and '.'.",
        )
    given = front_matter.one_line(fields, "category", where, required=True)
    if given not in (folder, FOLDERS[folder]):
        raise PageError(
            f"{where}: field 'category' is {given!r}, but the page is in {folder}/.",
            f"Write 'category: {FOLDERS[folder]}'.",
        )
    return FOLDERS[folder]


def resolve_links(page_id: str, body: str) -> tuple[str, tuple[str, ...]]:
    """Return the body with relative links to .md files replaced by page ids, and those ids.

    On disk the links are relative, so that they work when browsing the folder; an agent that reads
    a page needs ids. A skill's page is the file skills/NAME/skill.md with the id skills/NAME. Code
    blocks are not changed.
    """
    folder = page_id if page_id.startswith("skills/") else posixpath.dirname(page_id)
    found: list[str] = []

    def replace(match: re.Match[str]) -> str:
        path, _, _ = match.group(1).partition("#")
        if "://" in path or not path.endswith(".md"):
            return match.group(0)
        target = posixpath.normpath(posixpath.join(folder, path)).removesuffix(".md")
        if target.startswith("skills/"):
            target = target.removesuffix("/skill")
        found.append(target)
        return f"]({target})"

    parts = _FENCE.split(body)  # text, fence, code, fence, text, …
    for i in range(0, len(parts), 4):
        parts[i] = _LINK.sub(replace, parts[i])
    return "".join(parts), tuple(dict.fromkeys(found))
