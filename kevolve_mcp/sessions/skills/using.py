"""Which skills a node used: the one that its kernel came from, those that its author was shown and
names, those that stood in its ask."""

from __future__ import annotations

import re

from kevolve_mcp.search import Origin
from kevolve_mcp.store import SkillUseKind, Store
from knowledge.library import BUILTIN

from .learned import page_id

_NAMED = re.compile(
    r"\bskills/([a-z0-9_]+(?:/[a-z0-9_]+)?)|\bthe skill ([a-z0-9_]+(?:/[a-z0-9_]+)?)"
)


def used_by(
    store: Store, session: str, ask: int | None, origin: Origin | None, words: str
) -> dict[str, SkillUseKind]:
    """Page id of each skill -> how it was used. words: hypothesis and rationale of the node.
    origin: of a start.

    A name counts in the answer to an ask where that ask or an earlier one of the session showed the
    skill: it fits the task then, and no page is shown to an author twice. Anybody can name
    anything, also to say that it does not apply."""
    found: dict[str, SkillUseKind] = {}
    if ask is not None:
        for skill in store.skill_uses.shown(session, ask):
            found[skill] = "shown"
        met = store.skill_uses.shown(session, ask, earlier=True)
        for path, name in _NAMED.findall(words):
            if (known := _known(store, path or name)) in met:
                found[known] = "named"
    if origin is not None and origin.kind == "skill":
        found[f"skills/{origin.name}"] = "start"
    return found


def _known(store: Store, name: str) -> str | None:
    """The page id of a skill that exists, as an author may write it; None for ordinary words."""
    name = name.removesuffix("/skill")
    learned = name.removeprefix("learned/")
    if (BUILTIN / "skills" / name / "skill.md").is_file():
        return f"skills/{name}"
    return page_id(learned) if learned in {skill.id for skill in store.skills.list()} else None
