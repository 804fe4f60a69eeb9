"""What a session remembers besides its tree: of how it was opened, and of how it ended.

Rows of earlier versions lack fields; each has the value that stood for it then.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from harness.types import Budget, CaseDuel, Verdict


@dataclass(frozen=True)
class PastBudget:
    """A budget that another one took the place of."""

    budget: Budget
    until: float
    """Seconds since the epoch."""


@dataclass(frozen=True)
class SimilarFound:
    """What the best kernel of a task like this one was when the session was opened."""

    task: str
    session: str
    node: str
    target: str
    language: str
    device: str
    similarity: float
    """0 to 1."""
    fitness: float
    """Over the strongest baseline there."""
    confirmed: bool = False
    """Whether its session's end found that figure again in fresh processes."""
    same_task: bool = False
    differs: str = ""
    """In what its conditions are others, "" where they are the same."""


@dataclass(frozen=True, kw_only=True)
class SessionOptions:
    """Whatever else the opener decided."""

    notes: tuple[str, ...] = ()
    """Why there are no starting kernels."""
    skills: bool = True
    """Whether starting kernels come from skills, too."""
    path: str | None = None
    """The task's file, where it was opened from one."""
    beside: tuple[str, ...] = ()
    """What lay in its folder."""
    inject: float = 0.0
    """How often an ask shows a kernel of a similar task, 0 to 1."""
    tune: float = 0.0
    """The share of the budget for parameters that are searched while an author thinks, 0 to 1."""
    similar: tuple[SimilarFound, ...] = ()
    """The most similar first."""
    budgets: tuple[PastBudget, ...] = ()
    """The oldest first."""


@dataclass(frozen=True)
class NodeDuel:
    """One node over another in the same rounds, when the session ended."""

    first: str
    second: str
    ratio: float
    """Above 1 where the first is faster."""
    interval: tuple[float, float]
    """Of 95 %."""
    verdict: Verdict
    cases: tuple[CaseDuel, ...] = ()


@dataclass(frozen=True, kw_only=True)
class SessionOutcome:
    """What finishing a session found."""

    node: str
    """The one that was exported."""
    confirmed: str
    """Its evaluation in fresh processes, by id."""
    measured: str
    """The evaluation of the package, by id."""
    package: str
    """The folder."""
    files: tuple[str, ...] = ()
    rejected: dict[str, str] = field(default_factory=dict)
    """Why nodes before it were not confirmed, by id."""
    skills: tuple[str, ...] = ()
    """Ids of the skills that it proposed."""
    skill_notes: tuple[str, ...] = ()
    """Why other steps gave none."""
    contest: tuple[NodeDuel, ...] = ()
    """The first contender over the others."""
    contest_note: str = ""
