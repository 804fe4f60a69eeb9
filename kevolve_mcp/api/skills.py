"""One skill as every surface shows it: in a line, in figures, or whole."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kevolve_mcp.synthesis.machine import device

if TYPE_CHECKING:
    from kevolve_mcp.store import SkillEvidence, SkillRecord


@dataclass(frozen=True)
class Skill:
    """A reusable pattern with the evidence behind it."""

    id: str
    title: str
    state: str
    effect: float | None = None
    """Of the first measured pair here, null without one."""
    interval: tuple[float, float] | None = None
    """The 95 % interval of the effect."""
    evidence: str = ""
    """Where it was measured."""
    measurements: int = 0
    """How many pairs there are."""
    merged: bool = False
    """Whether the skill was known already, and only the evidence was added to it."""


@dataclass(frozen=True)
class SkillCounts:
    """How often a skill was shown and used, and what came of it."""

    id: str
    title: str
    state: str
    """Of those that come with the program "shipped", or "unproven" where no measurement shows a
    gain."""
    measurements: int
    retrievals: int
    """Asks that showed it."""
    uses: int
    """Nodes that answer such an ask, name it once it was shown, or came from it."""
    sessions: int
    """Those in which it was named or lent a kernel."""
    gained: int
    """Those of them that gained for certain."""
    standing: float
    """The factor on its rank, 1 and less."""


@dataclass(frozen=True)
class SkillDetail:
    """One skill, whole."""

    counts: SkillCounts
    text: str
    """The page."""
    history: tuple[str, ...]
    """One line for each event."""
    pattern: str = ""
    """Of the tasks that it fits."""


def skill(record: SkillRecord, evidence: Sequence[SkillEvidence]) -> Skill:
    """Show a skill of the store, with the first pair that was measured here, else the first of
    all."""
    if not evidence:
        return Skill(record.id, record.title, record.state)
    first = next((e for e in evidence if not e.origin), evidence[0])
    pair = f"{first.node} against {first.parent or 'the baseline'}"
    where = f"{first.session}: {pair} on {device(first.device)}"
    if first.origin:
        where = f"{first.origin}: {where}"
    return Skill(
        record.id,
        record.title,
        record.state,
        first.effect,
        first.interval or (first.effect, first.effect),
        where,
        len(evidence),
    )
