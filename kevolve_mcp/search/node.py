"""One candidate of a search: what became of it, and how it did against the best of its moment."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from harness.types import Status, Target, Verdict

from .provenance import NOBODY, PARAMETER_SEARCH, AuthorId, Origin

MARGIN = Target("cpu").margin  # of a node whose device is not known: the widest one
MOST_PREDICTED = 1_000_000  # a speed-up beyond it is a slip or an infinity, not a forecast

Role = Literal["start", "draft", "improve", "repair", "tune", "crossover"]


@dataclass(frozen=True)
class Meeting:
    """How a node did in the same rounds as `other`, which was the best when it was told.

    ratio: time of `other` / time of the node, above 1 where the node is faster; interval: of 95 %;
    both None where they could not be timed together, which `note` explains. verdict: of the node;
    None where the figures over the baseline have to decide.
    """

    other: str
    verdict: Verdict | None = None
    ratio: float | None = None
    interval: tuple[float, float] | None = None
    note: str = ""

    @property
    def won(self) -> bool:
        """Whether the node is certainly the faster one."""
        return self.verdict == "faster"


@dataclass(frozen=True)
class Node:
    """id: "n17" with seq 17. fitness: None where nothing was timed, 0.0 for anything not proved
    correct.

    parents: ids of earlier nodes, () for a root, never ROOT. interval: the 95 % interval of F where
    known. author: who handed it in. origin: where a start came from, None for a node that the
    search made. predicted_speedup: the author's forecast of F as a factor on the
    parent's (on 1 without a parent). tunables: the choices that the candidate's TUNABLES name, {}
    where none are known. seconds/device_seconds: what the evaluation cost. approved_by: who let it
    pass; one that needs a review then counts as correct. met: the comparison with the best node of
    the moment, None where none was needed. margin: of the device that timed it; ratios nearer to 1
    are no progress. refuted: the evaluation that proved it wrong when it was confirmed, "" for
    none; it may not win then, whatever the search found.
    """

    id: str
    seq: int
    parents: tuple[str, ...]
    candidate: str
    evaluation: str
    status: Status
    fitness: float | None
    eligible: bool = False
    signals: tuple[str, ...] = ()
    ask: int | None = None
    role: Role = "improve"
    author: AuthorId = NOBODY
    origin: Origin | None = None
    hypothesis: str = ""
    predicted_speedup: float | None = None
    rationale: str = ""
    annotations: dict[str, Any] = field(default_factory=dict)
    params: dict[str, Any] = field(default_factory=dict)
    # digest of the source with PARAMS blanked: nodes of one structure differ only in parameters
    structure: str = ""
    created: float = 0.0
    interval: tuple[float, float] | None = None
    tunables: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.0
    device_seconds: float = 0.0
    approved_by: str = ""
    met: Meeting | None = None
    margin: float = MARGIN
    refuted: str = ""

    @property
    def failed(self) -> bool:
        """Whether the candidate was not proved correct. A correct node may still be slow."""
        return self.status != "correct"

    @property
    def automatic(self) -> bool:
        """Whether parameter search made it, and no author."""
        return self.author == PARAMETER_SEARCH

    @property
    def family(self) -> str:
        """Equal for nodes that differ only in parameters; the candidate itself where the structure
        is not known."""
        return self.structure or self.candidate

    @property
    def score(self) -> float:
        """F as measured; 0 where unproved or untimed. Nodes are ordered by what is known of them
        (`ranking`), never by this."""
        return self.fitness or 0.0

    @property
    def assured(self) -> float:
        """The lower end of F's interval, F itself where none is known."""
        return min(self.score, self.interval[0]) if self.interval is not None else self.score

    @property
    def span(self) -> tuple[float, float]:
        """F's interval, F itself at both ends where none is known."""
        return self.interval or (self.score, self.score)
