"""Requests and answers about skills, as callers see them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class SkillRequest:
    """parent_id "n0" means the baseline: then the effect is the child's speed-up itself. code: the
    least lines of the node that show the change; the difference of the pair unless given. pattern:
    of the tasks that it fits, derived from the session's task unless given."""

    session_id: str
    node_id: str
    parent_id: str = ""
    title: str = ""
    mechanism: str = ""
    preconditions: str = ""
    counter_indications: str = ""
    code: str = ""
    pattern: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class SkillCounts:
    """state: that of the skill; of those that come with the program "shipped", or "unproven" where
    no measurement shows a gain. retrievals: asks that showed it. uses: nodes that answer such an
    ask, name it once it was shown, or came from it. sessions: those in which it was named or lent a
    kernel; gained: those of them that gained for certain. standing: the factor on its rank, 1 and
    less."""

    id: str
    title: str
    state: str
    measurements: int
    retrievals: int
    uses: int
    sessions: int
    gained: int
    standing: float


@dataclass(frozen=True)
class SkillDetail:
    """text: the page. history: one line for each event. pattern: of the tasks that it fits."""

    counts: SkillCounts
    text: str
    history: tuple[str, ...]
    pattern: str = ""
