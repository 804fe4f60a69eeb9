"""What `kevolve evaluate` prints: one verdict per candidate. This is the documented JSON."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from harness.types import CaseDuel, CaseResult, Evaluation, Signal, to_json
from harness.types import Verdict as Word
from kevolve_mcp import api

CaseRow = dict[str, Any]


@dataclass(frozen=True)
class Won:
    """One candidate's result against another in the same rounds: the fields of a Duel, the other
    candidate by its path."""

    against: str
    ratio: float
    interval: tuple[float, float]
    verdict: Word
    cases: tuple[CaseDuel, ...] = ()


@dataclass(frozen=True)
class Verdict:
    """One candidate's outcome.

    candidate: the path as it was given. status: an evaluation's status, or "unreadable" (the file
    could not be read) or "unavailable" (the evaluator itself failed; nothing is known about the
    candidate). evaluation: None in those two cases. reference_cases: the cases that a package hands
    to the reference; None for a candidate. head_to_head: results against the other candidates;
    not_compared: why a correct candidate, one of several, was not timed against others.
    """

    candidate: str
    status: str
    message: str
    hint: str = ""
    signals: tuple[Signal, ...] = ()
    evaluation: Evaluation | None = field(default=None, repr=False)
    reference_cases: tuple[str, ...] | None = None
    head_to_head: tuple[Won, ...] = ()
    not_compared: str = ""

    @classmethod
    def of(
        cls, candidate: str, evaluation: Evaluation, reference_cases: tuple[str, ...] | None = None
    ) -> Verdict:
        return cls(
            candidate,
            evaluation.status,
            evaluation.message,
            "",
            evaluation.signals,
            evaluation,
            reference_cases,
        )

    @property
    def correct(self) -> bool:
        return self.status == "correct"

    @property
    def fitness(self) -> float | None:
        return self.evaluation.fitness if self.evaluation else None

    @property
    def eligible(self) -> bool:
        return bool(self.evaluation and self.evaluation.eligible)

    @property
    def cases(self) -> tuple[CaseResult, ...]:
        return self.evaluation.cases if self.evaluation else ()

    def as_json(self) -> dict[str, Any]:
        """Return the evaluation as every surface shows it, with `file`, `hint`, `head_to_head` and
        `not_compared`. A file that could not be judged has only status and message."""
        shown = (
            api.evaluation(self.evaluation, record=True)
            if self.evaluation
            else api.Evaluation(message=self.message)
        )
        return {
            "file": self.candidate,
            "hint": self.hint,
            **to_json(shown),
            "status": self.status,
            "head_to_head": [to_json(won) for won in self.head_to_head],
            "not_compared": self.not_compared,
        }


def all_correct(verdicts: list[Verdict]) -> bool:
    """Return whether there is at least one candidate and all are correct, as exit code 0 says."""
    return bool(verdicts) and all(v.correct for v in verdicts)
