"""What a session remembers besides its tree: how it was opened and how it ended.

Rows of earlier versions lack fields; their defaults match the behaviour of those versions.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from harness.types import Budget, CaseDuel, Verdict


@dataclass(frozen=True)
class PastBudget:
    """A budget that was replaced."""

    budget: Budget
    until: float
    """Seconds since the epoch."""


@dataclass(frozen=True)
class SimilarFound:
    """The best kernel of a similar task when the session was opened."""

    task: str
    session: str
    node: str
    target: str
    language: str
    device: str
    similarity: float
    """0 to 1."""
    fitness: float
    """F over the strongest baseline of that session."""
    confirmed: bool = False
    """Whether the re-validation of its session confirmed the figure."""
    same_task: bool = False
    differs: str = ""
    """How its conditions differ, "" where they are the same."""


@dataclass(frozen=True, kw_only=True)
class SessionOptions:
    """Other decisions made when the session was opened."""

    notes: tuple[str, ...] = ()
    """Why there are no starting kernels."""
    skills: bool = True
    """Whether starting kernels may come from skills."""
    path: str | None = None
    """The task's file, where it was opened from one."""
    beside: tuple[str, ...] = ()
    """The modules that were in its folder."""
    inject: float = 0.0
    """How often an ask shows a kernel of a similar task, 0 to 1."""
    tune: float = 0.0
    """The share of the budget for searching parameters while authors write, 0 to 1."""
    similar: tuple[SimilarFound, ...] = ()
    """The most similar first."""
    budgets: tuple[PastBudget, ...] = ()
    """The oldest first."""


@dataclass(frozen=True)
class NodeDuel:
    """One node against another in the same rounds, at the end of the session."""

    first: str
    second: str
    ratio: float
    """Above 1 where the first is faster."""
    interval: tuple[float, float]
    """The 95 % interval."""
    verdict: Verdict
    cases: tuple[CaseDuel, ...] = ()


@dataclass(frozen=True, kw_only=True)
class SessionOutcome:
    """The outcome of finishing a session."""

    node: str
    """The exported node."""
    confirmed: str
    """Its evaluation in fresh processes, by id."""
    measured: str
    """The evaluation of the package, by id."""
    package: str
    """The package's folder."""
    files: tuple[str, ...] = ()
    rejected: dict[str, str] = field(default_factory=dict)
    """Why better nodes were not confirmed, by id."""
    skills: tuple[str, ...] = ()
    """Ids of the skills that it proposed."""
    skill_notes: tuple[str, ...] = ()
    """Why other steps gave none."""
    contest: tuple[NodeDuel, ...] = ()
    """The first contender against the others."""
    contest_note: str = ""
