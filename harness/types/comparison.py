"""Candidates timed against each other in the same rounds: the request and the result."""

from __future__ import annotations

from dataclasses import dataclass, field

from .candidate import Candidate
from .evaluation import MOST_EFFORT, Evaluation, EvaluationRequest, Status, Verdict
from .policy import Policy

MOST_COMPARED = 8
LEAST_EFFORT = 0.25


@dataclass(frozen=True)
class ComparisonRequest:
    """A request to compare candidates.

    candidates: two to MOST_COMPARED of one language, all different; the others are compared with
    the first. effort: a factor on the time spent on undecided pairs, LEAST_EFFORT to MOST_EFFORT.
    cases: as in EvaluationRequest.
    """

    candidates: tuple[Candidate, ...]
    policy: Policy = field(default_factory=Policy)
    effort: float = 1.0
    cases: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not 2 <= len(self.candidates) <= MOST_COMPARED:
            raise ValueError(
                f"{len(self.candidates)} candidates; 2 to {MOST_COMPARED} can be compared"
            )
        if len({c.digest for c in self.candidates}) < len(self.candidates):
            raise ValueError("two of the candidates have the same text")
        if len({c.language for c in self.candidates}) > 1:
            raise ValueError("the candidates are written in different languages")
        if not LEAST_EFFORT <= self.effort <= MOST_EFFORT:
            raise ValueError(
                f"effort {self.effort}; {LEAST_EFFORT:g} to {MOST_EFFORT:g} are accepted"
            )

    def single(self, candidate: Candidate) -> EvaluationRequest:
        """Return the request by which one of the candidates is built, verified and timed."""
        return EvaluationRequest(candidate, "compare", "time", self.policy, self.cases)


@dataclass(frozen=True)
class CaseDuel:
    """Two candidates compared on one case.

    ratio: time of the second candidate / time of the first, above 1 where the first is faster;
    median over the rounds in which both were timed. interval: the 95 % interval. pairs: the number
    of these rounds. open_us: the evaluator's own part of each call, in microseconds; a candidate
    that tampers with its process could save up to this much, so the verdict disregards an advantage
    within it.
    """

    name: str
    ratio: float
    interval: tuple[float, float]
    verdict: Verdict
    pairs: int = 0
    open_us: float = 0.0


@dataclass(frozen=True)
class Duel:
    """Candidate `first` against candidate `second`, by their positions in the request.

    ratio: exp of the weighted mean of the cases' ln(ratio). interval: the same formula applied to
    the bounds of the cases' intervals, so it is never too narrow. verdict: that of `first`.
    """

    first: int
    second: int
    ratio: float
    interval: tuple[float, float]
    verdict: Verdict
    cases: tuple[CaseDuel, ...] = ()

    def mirrored(self) -> Duel:
        """Return the same comparison with the two candidates exchanged."""
        cases = tuple(
            CaseDuel(c.name, *_mirror(c.ratio, c.interval, c.verdict), c.pairs, c.open_us)
            for c in self.cases
        )
        return Duel(
            self.second, self.first, *_mirror(self.ratio, self.interval, self.verdict), cases
        )


def _mirror(
    ratio: float, interval: tuple[float, float], verdict: Verdict
) -> tuple[float, tuple[float, float], Verdict]:
    turned: dict[Verdict, Verdict] = {"faster": "slower", "slower": "faster"}
    return 1 / ratio, (1 / interval[1], 1 / interval[0]), turned.get(verdict, verdict)


@dataclass(frozen=True)
class HeadToHead:
    """The result of a comparison.

    evaluations: one for each candidate, in the request's order, with its figures against the
    strongest baseline from the same rounds. duels: each later candidate against each earlier one,
    without candidates that are incorrect or need a review. processes: the most fresh processes that
    any candidate was timed in.
    """

    evaluations: tuple[Evaluation, ...]
    duels: tuple[Duel, ...] = ()
    processes: int = 0
    seconds: float = 0.0

    @property
    def status(self) -> Status:
        """The first status that is not "correct"."""
        return next((e.status for e in self.evaluations if e.status != "correct"), "correct")

    def duel(self, first: int, second: int) -> Duel | None:
        """Return the comparison of two candidates by position; None where one took no part."""
        both = (*self.duels, *(d.mirrored() for d in self.duels))
        return next((d for d in both if (d.first, d.second) == (first, second)), None)

    def in_order(self) -> tuple[Duel, ...]:
        """Return each candidate against each later one, where both took part."""
        count = len(self.evaluations)
        duels = [
            self.duel(first, second) for first in range(count) for second in range(first + 1, count)
        ]
        return tuple(duel for duel in duels if duel is not None)
