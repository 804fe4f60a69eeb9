"""Candidates timed against each other in the same rounds: what is asked, and what is found."""

from __future__ import annotations

from dataclasses import dataclass, field

from .candidate import Candidate
from .evaluation import MOST_EFFORT, Evaluation, EvaluationRequest, Status, Verdict
from .policy import Policy

MOST_COMPARED = 8
LEAST_EFFORT = 0.25


@dataclass(frozen=True)
class ComparisonRequest:
    """candidates: two to MOST_COMPARED of one language, all different; the first is the one that
    the others are held against. effort: a multiple of the time that is spent on pairs which are not
    decided yet, LEAST_EFFORT to MOST_EFFORT. cases: as in EvaluationRequest."""

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
            raise ValueError("two of the candidates are the same text")
        if len({c.language for c in self.candidates}) > 1:
            raise ValueError("the candidates are of different languages")
        if not LEAST_EFFORT <= self.effort <= MOST_EFFORT:
            raise ValueError(
                f"effort {self.effort}; {LEAST_EFFORT:g} to {MOST_EFFORT:g} are accepted"
            )

    def single(self, candidate: Candidate) -> EvaluationRequest:
        """As what each of them is built, verified and timed."""
        return EvaluationRequest(candidate, "compare", "time", self.policy, self.cases)


@dataclass(frozen=True)
class CaseDuel:
    """ratio: time of the second candidate / time of the first, above 1 where the first is faster;
    median over rounds in which both were timed. interval: of 95 %. pairs: such rounds. open_us: the
    evaluator's own part of a call, which both have; one that tampers with it in its process could
    save so much, and the verdict does not count with that."""

    name: str
    ratio: float
    interval: tuple[float, float]
    verdict: Verdict
    pairs: int = 0
    open_us: float = 0.0


@dataclass(frozen=True)
class Duel:
    """Candidate `first` against candidate `second`, by their places in the request. ratio: exp of
    the weighted mean of the cases' ln(ratio); interval: the same of their bounds, so never too
    narrow. verdict: of the first."""

    first: int
    second: int
    ratio: float
    interval: tuple[float, float]
    verdict: Verdict
    cases: tuple[CaseDuel, ...] = ()

    def mirrored(self) -> Duel:
        """The same, seen from the second."""
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
    """evaluations: one for each candidate, in the request's order, with its figures over the
    strongest baseline from the same rounds; one that is not right, or needs a review, took no part
    or its duels are left out. duels: each later candidate against each earlier one. processes:
    fresh ones of each candidate, at most."""

    evaluations: tuple[Evaluation, ...]
    duels: tuple[Duel, ...] = ()
    processes: int = 0
    seconds: float = 0.0

    @property
    def status(self) -> Status:
        """The first that is not "correct"."""
        return next((e.status for e in self.evaluations if e.status != "correct"), "correct")

    def duel(self, first: int, second: int) -> Duel | None:
        """One candidate over another; None where one of them took no part."""
        both = (*self.duels, *(d.mirrored() for d in self.duels))
        return next((d for d in both if (d.first, d.second) == (first, second)), None)

    def in_order(self) -> tuple[Duel, ...]:
        """Each candidate over each later one, where both took part."""
        count = len(self.evaluations)
        duels = [
            self.duel(first, second) for first in range(count) for second in range(first + 1, count)
        ]
        return tuple(duel for duel in duels if duel is not None)
