"""One skill as every surface shows it: as a line, with its counts, or in full."""

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
    """The speed-up of the first pair measured here, null without one."""
    interval: tuple[float, float] | None = None
    """The 95 % interval of the effect."""
    evidence: str = ""
    """Where it was measured."""
    measurements: int = 0
    """The number of measured pairs."""
    merged: bool = False
    """Whether the skill was already known, so that only evidence was added."""


@dataclass(frozen=True)
class SkillCounts:
    """How often a skill was shown and used, and with which results."""

    id: str
    title: str
    state: str
    """Its state; for a skill that comes with the program "shipped", or "unproven" where no
    measurement shows a gain."""
    measurements: int
    retrievals: int
    """The number of asks that showed it."""
    uses: int
    """The number of nodes that answer such an ask, name the skill after it was shown, or came from
    it."""
    sessions: int
    """The number of sessions in which it was named or lent a kernel."""
    gained: int
    """The number of those sessions with a certain gain."""
    standing: float
    """The factor on its rank, at most 1."""


@dataclass(frozen=True)
class SkillDetail:
    """One skill in full."""

    counts: SkillCounts
    text: str
    """The page."""
    history: tuple[str, ...]
    """One line for each event."""
    pattern: str = ""
    """The pattern of the tasks that it fits."""


def skill(record: SkillRecord, evidence: Sequence[SkillEvidence]) -> Skill:
    """Show a stored skill with the first pair measured here, else with the first pair."""
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
