"""Which skills a node used: the one that its kernel came from, those that its author names, those
that stood in its ask."""

from __future__ import annotations

import re

from kevolve_mcp.store import SkillUseKind, Store
from knowledge.library import BUILTIN

from .learned import page_id

_ORIGIN = "skill: "
_NAMED = re.compile(
    r"\bskills/([a-z0-9_]+(?:/[a-z0-9_]+)?)|\bthe skill ([a-z0-9_]+(?:/[a-z0-9_]+)?)"
)


def used_by(
    store: Store, session: str, ask: int | None, origin: str | None, words: str
) -> dict[str, SkillUseKind]:
    """Page id of each skill -> how it was used. words: hypothesis and rationale of the node.
    origin: of a start, "skill: NAME"."""
    found: dict[str, SkillUseKind] = {}
    for skill in store.skill_uses.shown(session, ask) if ask is not None else ():
        found[skill] = "shown"
    for path, name in _NAMED.findall(words):
        if (known := _known(store, path or name)) is not None:
            found[known] = "named"
    if origin and origin.startswith(_ORIGIN):
        found[f"skills/{origin.removeprefix(_ORIGIN)}"] = "start"
    return found


def _known(store: Store, name: str) -> str | None:
    """The page id of a skill that exists, as an author may write it; None for ordinary words."""
    name = name.removesuffix("/skill")
    learned = name.removeprefix("learned/")
    if (BUILTIN / "skills" / name / "skill.md").is_file():
        return f"skills/{name}"
    return page_id(learned) if learned in {skill.id for skill in store.skills.list()} else None
