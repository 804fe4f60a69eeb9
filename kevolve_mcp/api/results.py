"""The results of a session's jobs as every surface shows them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from harness.types import CaseDuel, Spent, Verdict

from .evaluations import Evaluation
from .nodes import Node
from .sessions import Session
from .skills import Skill

Depth = Literal["compile", "check", "profile", "ablation", "submit"]


@dataclass(frozen=True)
class Opened:
    """The result of an "open" job."""

    session: Session
    joined: bool = False
    """Whether an equal session was already open."""
    differs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Evaluated:
    """The result of a job of any Depth."""

    depth: Depth
    evaluation: Evaluation
    session_id: str = ""
    node: Node | None = None
    best: Node | None = None
    """The session's best node when the job ended."""
    new_best: bool = False
    cached: bool = False
    """Whether the store answered, from an evaluation with an equal key."""
    assumed_root: bool = False
    """Whether neither ask nor parents were given, so that it became a child of the root."""
    nearest: str = ""
    """Where no parent was named: the most similar earlier node, which became its parent if the
    likeness is large enough."""
    likeness: float | None = None
    """The share of its lines that `nearest` has, 0 to 1."""
    predicted_speedup: float | None = None
    observed: float | None = None
    """The node's fitness over its parents' (its own at the root), to compare with
    predicted_speedup."""
    facts: dict[str, Any] = field(default_factory=dict)
    """Static facts of the build and figures of the profile."""
    knowledge: tuple[str, ...] = ()
    """Pages to which its signals lead."""
    spent: Spent = field(default_factory=Spent)
    """What was left of the session's budget when the job ended."""


@dataclass(frozen=True)
class Duel:
    """One kernel against another, by their labels, from rounds in which both were timed."""

    first: str
    second: str
    ratio: float
    """Above 1 where the first is faster."""
    interval: tuple[float, float]
    verdict: Verdict
    cases: tuple[CaseDuel, ...] = ()


@dataclass(frozen=True)
class Compared:
    """The result of a "compare" job."""

    session_id: str
    labels: tuple[str, ...]
    """Of the kernels, in order."""
    evaluations: tuple[Evaluation, ...]
    """Of the kernels, in order."""
    duels: tuple[Duel, ...]
    """The first against each of the others, then the others against each other; without kernels
    that are incorrect or need a review."""
    processes: int
    """The number of fresh processes of each kernel."""


@dataclass(frozen=True)
class Trial:
    """One choice of parameters."""

    params: dict[str, Any]
    status: str
    evaluation_id: str
    latency_us: float | None = None
    """Weighted mean over the cases."""
    fitness: float | None = None
    interval: tuple[float, float] | None = None
    given: bool = False
    """Whether it is the unchanged file."""

    @property
    def assured(self) -> float:
        """Return the lower end of F's interval, 0 for a trial that is not correct and timed."""
        return (self.interval[0] if self.interval else self.fitness or 0.0) if self.fitness else 0.0


@dataclass(frozen=True)
class Tuned:
    """The result of a "tune" job: trials by the lower end of F's interval, failed ones last."""

    session_id: str
    trials: tuple[Trial, ...]


@dataclass(frozen=True)
class Finished:
    """The result of a "finish" job."""

    session: Session
    state: str
    reason: str
    node: Node | None = None
    confirmed: Evaluation | None = None
    """The re-validation."""
    measured: Evaluation | None = None
    """The package timed as a user calls it, the only figure to report."""
    unmet_goals: tuple[str, ...] = ()
    """Where the package misses the goal or loses the kernel's gain, one sentence each."""
    package: str = ""
    files: tuple[str, ...] = ()
    contents: dict[str, str] = field(default_factory=dict)
    """The package's files by name, where they were requested."""
    lineage: tuple[Node, ...] = ()
    rejected: dict[str, str] = field(default_factory=dict)
    """Better nodes that the re-validation did not confirm, with the reason."""
    skills: tuple[Skill, ...] = ()
    skill_notes: tuple[str, ...] = ()
    contest: tuple[Duel, ...] = ()
    """The node to be confirmed first against the others that might be the best."""
    contest_note: str = ""
    """Why there was no head-to-head contest, "" where none was needed."""
