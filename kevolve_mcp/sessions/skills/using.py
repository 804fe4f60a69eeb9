"""Which skills a node used: the one that its kernel came from, those that its author was shown and
names, and those in its ask.

Words are read by simple patterns, clause by clause, and may be misread: an unknown form of denial
counts as a use, as does a false claim. Whether that helps the skill depends on the measurements.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from kevolve_mcp.search import Origin
from kevolve_mcp.store import SkillUseKind, Store
from knowledge.library import BUILTIN

from . import code
from .learned import is_learned, name_of, page_id

_NAMED = re.compile(
    r"\bskills/([a-z0-9_]+(?:/[a-z0-9_]+)?)|\bthe skill ([a-z0-9_]+(?:/[a-z0-9_]+)?)"
)
_SENTENCE = re.compile(r"[.!?](?=\s|$)|\n")
_CLAUSE = re.compile(r"[,;:()]|\b(?:but|because|since|while)\b")
_NOT = r"(?:not|never|cannot|neither|nor|\w+n't)"
# before the name in its clause: "not using NAME", "unlike NAME", "without the help of NAME"
_DENIED_BEFORE = re.compile(
    rf"\b{_NOT}\b|\b(?:instead of|rather than|unlike|avoid\w*|ignor\w*|skip\w*|reject\w*|drop\w*)\b"
    r"|\b(?:no|without)(?:\s+\w+){0,4}\s*$"
)
# after it in its sentence: "NAME does not apply here", "NAME was read, and not used"
_DENIED_AFTER = re.compile(
    rf"\b(?:{_NOT}|no longer)(?:\s+\w+){{0,2}}\s+"
    r"(?:us|appl|fit|help|follow|tak|adopt|need|suit|work|hold|match|tri|relevan)\w*"
)


def used_by(
    store: Store,
    session: str,
    ask: int | None,
    origin: Origin | None,
    words: str,
    source: str,
) -> dict[str, SkillUseKind]:
    """Find the skills that a node used.

    A name counts in the answer to an ask if that ask or an earlier one of the session showed the
    skill: then it fits the task, and a page is shown to an author only once. It counts unless its
    clause denies it, or if the kernel contains the code of the skill: an author may name a skill
    only to say that it does not apply.

    Args:
        store: The store of skills and asks.
        session: The node's session.
        ask: The seq of its ask, None for a node without one.
        origin: The origin of a start.
        words: Hypothesis and rationale of the node.
        source: The text of its kernel.

    Returns:
        Page id of each skill -> how it was used.
    """
    uses: dict[str, SkillUseKind] = {}
    if ask is not None:
        for skill in store.skill_uses.shown(session, ask):
            uses[skill] = "shown"
        met = store.skill_uses.shown(session, ask, earlier=True)
        for name, affirmed in _mentions(words):
            known = _known(store, name)
            if known in met and (affirmed or _holds_code(store, known, source)):
                uses[known] = "named"
    if origin is not None and origin.kind == "skill":
        uses[f"skills/{origin.name}"] = "start"
    return uses


def _mentions(words: str) -> Iterator[tuple[str, bool]]:
    """Each name, and whether its clause does not deny it."""
    for sentence in _SENTENCE.split(words.replace("\N{RIGHT SINGLE QUOTATION MARK}", "'")):
        names = list(_NAMED.finditer(sentence))
        for mention, following in zip(names, [*names[1:], None], strict=False):
            before = _CLAUSE.split(sentence[: mention.start()])[-1].lower()
            # words after the next name refer to that one
            after = sentence[mention.end() : following.start() if following else None].lower()
            denied = _DENIED_BEFORE.search(before) or _DENIED_AFTER.search(after)
            yield mention[1] or mention[2], denied is None


def _holds_code(store: Store, page: str, source: str) -> bool:
    """Whether the kernel contains the code that the author of a learned skill gave."""
    excerpt = store.skills.get(name_of(page)).code if is_learned(page) else ""
    return bool(excerpt) and not code.missing(excerpt, source)


def _known(store: Store, name: str) -> str | None:
    """The page id of a skill that exists, as an author may write it; None for ordinary words."""
    name = name.removesuffix("/skill")
    learned = name.removeprefix("learned/")
    if (BUILTIN / "skills" / name / "skill.md").is_file():
        return f"skills/{name}"
    return page_id(learned) if learned in {skill.id for skill in store.skills.list()} else None
