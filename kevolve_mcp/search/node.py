"""One candidate of a search: its results, and its comparison with the best node of its time."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from harness.types import Status, Target, Verdict

from .provenance import NOBODY, PARAMETER_SEARCH, AuthorId, Origin

MARGIN = Target("cpu").margin  # for a node whose device is not known: the widest one
MOST_PREDICTED = 1_000_000  # a larger speed-up is a slip or an infinity, not a forecast

Role = Literal["start", "draft", "improve", "repair", "tune", "crossover"]


@dataclass(frozen=True)
class Meeting:
    """A node's result in the same rounds as `other`, the best node when this one was submitted.

    ratio: time of `other` / time of the node, above 1 where the node is faster; interval: 95 %;
    both None where they could not be timed together, which `note` explains. verdict: the node's;
    None where the figures over the baseline have to decide.
    """

    other: str
    verdict: Verdict | None = None
    ratio: float | None = None
    interval: tuple[float, float] | None = None
    note: str = ""

    @property
    def won(self) -> bool:
        """Return whether the node is certainly faster."""
        return self.verdict == "faster"


@dataclass(frozen=True)
class Node:
    """A node. id: "n17" with seq 17. fitness: None where nothing was timed, 0.0 for anything not
    proved correct.

    parents: ids of earlier nodes, () for a root, never ROOT. interval: the 95 % interval of F where
    known. author: who submitted it. origin: where a start came from, None for a node that the
    search made. predicted_speedup: the author's forecast of F as a factor on the parent's (on 1
    without a parent). tunables: the choices in the candidate's TUNABLES, {} where none are known.
    seconds/device_seconds: the cost of the evaluation. approved_by: who approved it; a node that
    needs a review then counts as correct. met: the comparison with the best node at that time, None
    where none was needed. margin: that of the timing device; ratios closer to 1 are no progress.
    refuted: the evaluation that proved it wrong in a confirmation, "" for none; a refuted node
    cannot win.
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
        """Return whether the candidate was not proved correct. A correct node may still be
        slow."""
        return self.status != "correct"

    @property
    def automatic(self) -> bool:
        """Return whether parameter search made it instead of an author."""
        return self.author == PARAMETER_SEARCH

    @property
    def family(self) -> str:
        """Return a key that is equal for nodes that differ only in parameters; the candidate where
        the structure is not known."""
        return self.structure or self.candidate

    @property
    def score(self) -> float:
        """Return F as measured, 0 where unproved or untimed. Nodes are never ordered by it, but by
        `ranking`."""
        return self.fitness or 0.0

    @property
    def assured(self) -> float:
        """Return the lower end of F's interval, F itself where none is known."""
        return min(self.score, self.interval[0]) if self.interval is not None else self.score

    @property
    def span(self) -> tuple[float, float]:
        """Return F's interval, F at both ends where none is known."""
        return self.interval or (self.score, self.score)
