"""Reading a foreign skill's folder with care: nothing in it runs, and unexpected files are refused
by name."""

from __future__ import annotations

import ast
import json
import math
import os
import re
import stat
from collections.abc import Mapping
from itertools import takewhile
from pathlib import Path
from typing import Any

import yaml

from harness.types import CodecError, Target, from_json
from kevolve_mcp.actions import Action
from kevolve_mcp.errors import UsageError
from kevolve_mcp.store import NewSkill, SkillEvidence
from knowledge import PageError, front_matter, sections

from . import code, patterns, wording
from .folders import (
    ASSETS,
    EVIDENCE,
    FORMAT,
    HEADINGS,
    MAX_DESCRIPTION,
    METADATA,
    PAGE,
    folder_name,
)

MAX_FILES = 32
MAX_FILE = 256 * 1024  # bytes
MAX_PAGE = 40_000  # characters of SKILL.md
MAX_BRACKETS = 200  # in the front matter
MAX_EVIDENCE = 500
MAX_FIELD = 200  # characters of a text in a piece of evidence
MAX_SIGNALS = 20
EXTRA = ("LICENSE", "LICENSE.txt", "LICENSE.md", "README.md")  # allowed, but not read
_KERNEL = re.compile(r"\w[\w.-]{0,60}\.py", re.ASCII)
_HINT = f"A skill's folder holds {PAGE}, {EVIDENCE} and {ASSETS}/*.py."
_EXPORT = Action("export_skill", "writes one")


def read(folder: Path, origin: str) -> tuple[NewSkill, tuple[SkillEvidence, ...]]:
    """Return the skill and its evidence, marked with `origin`. Raises UsageError naming the file
    and what is wrong with it."""
    texts = _texts(folder)
    if PAGE not in texts:
        raise UsageError(f"{folder} holds no {PAGE}", _HINT, _EXPORT)
    try:
        new = _skill(texts, folder.resolve().name)
        evidence = _evidence(texts[EVIDENCE], origin) if EVIDENCE in texts else ()
    except (RecursionError, MemoryError):  # very deep nesting in YAML, JSON or Python
        raise UsageError(
            f"{folder}: a file is nested too deeply to be read", _HINT, _EXPORT
        ) from None
    return new, evidence


def _texts(folder: Path) -> dict[str, str]:
    """The text of every file by its path below the folder. File types are checked before opening,
    since reading a pipe would never end."""
    if folder.is_symlink() or not folder.is_dir():
        raise UsageError(f"{folder} is not a folder", _HINT, _EXPORT)
    texts: dict[str, str] = {}
    for place in (folder, folder / ASSETS):
        if place != folder and not os.path.lexists(place):
            continue
        for entry in sorted(os.scandir(place), key=lambda e: e.name):
            name = str(Path(entry.path).relative_to(folder))
            if place == folder and entry.name == ASSETS and entry.is_dir(follow_symlinks=False):
                continue
            if not stat.S_ISREG(entry.stat(follow_symlinks=False).st_mode):
                raise UsageError(f"{name} in {folder} is not a regular file", _HINT, _EXPORT)
            expected = (
                name in (PAGE, EVIDENCE, *EXTRA)
                if place == folder
                else _KERNEL.fullmatch(entry.name)
            )
            if not expected:
                raise UsageError(f"{name} does not belong in {folder}", _HINT, _EXPORT)
            if len(texts) == MAX_FILES or entry.stat(follow_symlinks=False).st_size > MAX_FILE:
                raise UsageError(
                    f"{folder} is too large at {name}",
                    f"At most {MAX_FILES} files of {MAX_FILE // 1024} KiB.",
                )
            if name not in EXTRA:
                texts[name] = _text(Path(entry.path), name)
    return texts


def _text(path: Path, name: str) -> str:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as file:
            data = file.read(MAX_FILE + 1)
        return data[:MAX_FILE].decode("utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(
            f"{name} is not UTF-8 text (byte {error.start})", "Save it as UTF-8."
        ) from None
    except OSError as error:
        raise UsageError(
            f"{name} cannot be read: {error.strerror}", "Check its permissions."
        ) from None


def _skill(texts: Mapping[str, str], folder: str) -> NewSkill:
    _refuse_tricks(texts[PAGE])
    try:
        fields, body = front_matter.split(texts[PAGE], PAGE)
        front_matter.check_names(
            fields,
            ("name", "description", "license", "compatibility", "metadata", "allowed-tools"),
            PAGE,
        )
        name = front_matter.one_line(fields, "name", PAGE, required=True)
        description = front_matter.one_line(fields, "description", PAGE, required=True)
        metadata = front_matter.mapping(fields, "metadata", PAGE)
        front_matter.check_names(metadata, METADATA, f"{PAGE}: metadata")
    except PageError as error:
        raise UsageError(error.message, error.hint, *error.actions) from None
    if name != folder_name(name) or name != folder:
        raise UsageError(
            f"{PAGE}: name is {name!r:.80} and the folder {folder!r:.80}",
            "Both must be the same: lower case, digits and single hyphens.",
        )
    if len(description) > MAX_DESCRIPTION:
        raise UsageError(
            f"{PAGE}: description is longer than {MAX_DESCRIPTION} characters", "Shorten it."
        )
    if "allowed-tools" in fields:
        raise UsageError(
            f"{PAGE}: allowed-tools grants tools",
            "Remove it: these skills are read, never run.",
        )
    wrong, fix = wording.problem(description)
    if wrong:
        raise UsageError(f"{PAGE}: description {wrong}", fix)
    values = {key: _plain(metadata, key) for key in METADATA}
    try:
        Target.parse(values["target"])
    except ValueError as error:
        raise UsageError(f"{PAGE}: metadata: {error}", "Write, for example, target: cpu.") from None
    if not re.fullmatch(r"[a-z_]{1,40}", values["language"]) or len(values["target"]) > 80:
        raise UsageError(
            f"{PAGE}: metadata: target or language is not a name: {values['language']!r:.60}",
            "Write, for example, target: cpu, language: cpp.",
        )
    signals = tuple(values["signals"].split())
    if len(signals) > MAX_SIGNALS or any(not s.replace(".", "_").isidentifier() for s in signals):
        raise UsageError(
            f"{PAGE}: metadata: signals are {values['signals']!r:.80}",
            "Write the names of signals, separated by spaces.",
        )
    parts = _parts(body)
    wording.check({name: text for name, text in parts.items() if name != "code"})
    code.check_excerpt(parts["code"])
    return NewSkill(
        **parts,
        matches=patterns.checked(_json(values["pattern"] or "{}", f"{PAGE}: metadata: pattern")),
        target=values["target"],
        language=values["language"],
        signals=signals,
        files={
            name.removeprefix(f"{ASSETS}/"): _python(name, text)
            for name, text in texts.items()
            if name.endswith(".py")
        },
    )


def _refuse_tricks(text: str) -> None:
    """Refuse YAML bombs: a few lines that refer to each other can expand beyond all memory, and
    very many brackets take minutes to parse."""
    if len(text) > MAX_PAGE:
        raise UsageError(f"{PAGE} is longer than {MAX_PAGE} characters", "Shorten it.")
    head = "\n".join(
        takewhile(lambda line: line.strip() != "---", text.removeprefix("\ufeff").splitlines()[1:])
    )
    if head.count("[") + head.count("{") > MAX_BRACKETS:
        raise UsageError(
            f"{PAGE}: the front matter is nested too deeply", f"At most {MAX_BRACKETS} brackets."
        )
    try:
        if any(isinstance(e, yaml.AliasEvent) for e in yaml.parse(head, Loader=yaml.SafeLoader)):
            raise UsageError(
                f"{PAGE}: the front matter refers to itself (*name)", "Write each value out."
            )
    except yaml.YAMLError:
        return  # reading the front matter reports the error with its line


def _plain(metadata: Mapping[str, Any], key: str) -> str:
    value = metadata.get(key, "")
    if not isinstance(value, str):
        raise UsageError(
            f"{PAGE}: metadata: {key} must be text", "The specification only allows text there."
        )
    return value


def _parts(body: str) -> dict[str, str]:
    """Title and texts from the Markdown, by the names of a skill's fields."""
    parts = {"title": "", **dict.fromkeys(HEADINGS, "")}
    names = {heading: name for name, heading in HEADINGS.items()}
    for section in sections.split(body):
        text = section.text.strip()
        if not section.heading:
            if not text.startswith("# ") or "\n" in text:
                raise UsageError(
                    f"{PAGE}: the text must begin with a title and nothing else",
                    "First '# Title', then '## Mechanism'.",
                )
            parts["title"] = text[2:].strip()
            continue
        if section.heading not in names or parts[names[section.heading]]:
            raise UsageError(
                f"{PAGE}: unknown or repeated heading {section.heading!r:.60}",
                f"Headings: {', '.join(names)}.",
            )
        inner = text.partition("\n")[2].strip()
        parts[names[section.heading]] = (
            inner.removeprefix("```").removesuffix("```").strip("\n")
            if section.heading == "Code"
            else inner
        )
    return parts


def _python(name: str, text: str) -> str:
    """The text, parsed as Python but not run; its comments and strings are checked."""
    try:
        ast.parse(text)
    except (SyntaxError, ValueError) as error:
        raise UsageError(
            f"{name} is not valid Python: {error}", "Kernels and templates are Python files."
        ) from None
    wrong, fix = code.problem(text)
    if wrong:
        raise UsageError(f"{name} {wrong}", fix)
    return text


def _json(text: str, where: str) -> Any:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise UsageError(f"{where} is not valid JSON: {error}", _HINT, _EXPORT) from None
    if not isinstance(value, dict):
        raise UsageError(f"{where} must be an object", _HINT, _EXPORT)
    return value


def _evidence(text: str, origin: str) -> tuple[SkillEvidence, ...]:
    data = _json(text, EVIDENCE)
    rows = data.get("evidence")
    if data.get("format") != FORMAT or not isinstance(rows, list) or len(rows) > MAX_EVIDENCE:
        raise UsageError(
            f"{EVIDENCE} is not of format {FORMAT}",
            f'Write {{"format": {FORMAT}, "evidence": [...]}} with at most {MAX_EVIDENCE} rows.',
        )
    return tuple(_row(row, i, origin) for i, row in enumerate(rows))


def _row(row: Any, i: int, origin: str) -> SkillEvidence:
    where = f"{EVIDENCE}: evidence[{i}]"
    if not isinstance(row, dict):
        raise UsageError(f"{where} must be an object", _HINT, _EXPORT)
    try:
        evidence = from_json(SkillEvidence, {**row, "origin": origin})
    except CodecError as error:
        raise UsageError(f"{where}: {error}", _HINT, _EXPORT) from None
    for name, value in vars(evidence).items():
        if isinstance(value, str) and (
            len(value) > MAX_FIELD or (name != "origin" and wording.is_hostile(value))
        ):
            raise UsageError(
                f"{where}: {name} is too long or not plain text: {value!r:.60}",
                "Write a short plain text.",
            )
    numbers = [
        evidence.effect,
        *(evidence.interval or ()),
        *([evidence.predicted] if evidence.predicted is not None else []),
    ]
    if not all(math.isfinite(n) and 0 < n < 1e6 for n in numbers):
        raise UsageError(
            f"{where}: effects must be finite numbers above 0",
            "effect is a factor: 1.5 means one and a half times as fast.",
        )
    if (
        evidence.interval is None
        or not 1 < evidence.interval[0] <= evidence.effect <= evidence.interval[1]
    ):
        raise UsageError(
            f"{where}: the interval must lie above 1 and contain the effect",
            "Only a certain effect is evidence.",
        )
    return evidence
