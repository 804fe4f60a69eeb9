"""Candidates that `kevolve evaluate` found correct, timed against each other in the same rounds.

Speed-ups over a baseline that were taken minutes apart do not tell near candidates apart.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from harness.types import (
    LEAST_EFFORT,
    MOST_COMPARED,
    Candidate,
    ComparisonRequest,
    Duel,
    HeadToHead,
    Task,
)
from kevolve_mcp.errors import EvaluatorUnavailable, Unavailable
from kevolve_mcp.executors.base import Executor
from kevolve_mcp.search import interval

from .judging import Entry, Order, telling, tried
from .verdicts import Verdict, Won


@dataclass(frozen=True)
class Meeting:
    """labels: the candidates that met, the best one first; duels: each over each later one, by
    place in labels. processes: fresh ones of each. note: who or what is missing and why, else
    ""."""

    labels: tuple[str, ...]
    duels: tuple[Duel, ...] = ()
    processes: int = 0
    note: str = ""


async def meet(
    executor: Executor,
    task: Task,
    what: Order,
    verdicts: Sequence[Verdict],
    announce: Callable[[str], None],
) -> tuple[Meeting | None, list[Verdict]]:
    """How the candidates that may be the best fare against each other, and the verdicts with that.
    verdicts: one for each entry. None where fewer than two are correct.

    One that is found not to be correct now has that as its verdict: it had fresh inputs.
    """
    able = contenders(what.entries, verdicts)
    some = able[:MOST_COMPARED]
    if len(some) < 2:
        return None, list(verdicts)
    labels = tuple(verdicts[place].candidate for place, _ in some)
    announce(f"timing {', '.join(labels)} against each other")
    request = ComparisonRequest(
        tuple(candidate for _, candidate in some),
        what.policy,
        LEAST_EFFORT if what.purpose == "search" else 1.0,
    )
    call = partial(executor.compare, task, request, what.target, progress=telling(announce))
    try:
        found = await tried(call)
    except (EvaluatorUnavailable, Unavailable) as error:
        note = f"not timed against each other: {error.message}. {error.hint}".strip()
        return Meeting(labels, note=note), list(verdicts)
    known = list(verdicts)
    for number, (place, _) in enumerate(some):
        known[place] = _with(known[place], found, number, labels)
    return Meeting(labels, found.in_order(), found.processes, _note(labels, found, able)), known


def contenders(
    entries: Sequence[Entry], verdicts: Sequence[Verdict]
) -> list[tuple[int, Candidate]]:
    """The places of the two with the highest F and of all whose intervals reach up to that of the
    first, best first, each text once."""
    ranked: dict[str, tuple[int, Candidate]] = {}
    order = sorted(range(len(verdicts)), key=lambda place: -(verdicts[place].fitness or 0.0))
    for place in order:
        candidate, verdict = entries[place].candidate, verdicts[place]
        if isinstance(candidate, Candidate) and verdict.correct and verdict.fitness:
            ranked.setdefault(candidate.digest, (place, candidate))
    able = list(ranked.values())
    if len(able) < 3:
        return able
    least = _bounds(verdicts[able[0][0]])[0]
    return able[:2] + [each for each in able[2:] if _bounds(verdicts[each[0]])[1] >= least]


def _bounds(verdict: Verdict) -> tuple[float, float]:
    """The interval of F; everything is possible where there is none."""
    return interval(verdict.cases) or (0.0, float("inf"))


def _with(verdict: Verdict, found: HeadToHead, number: int, labels: tuple[str, ...]) -> Verdict:
    evaluation = found.evaluations[number]
    if evaluation.status != "correct":
        return Verdict.of(verdict.candidate, evaluation, verdict.reference_cases)
    duels = [found.duel(number, other) for other in range(len(labels))]
    won = tuple(Won(labels[d.second], d.ratio, d.interval, d.verdict, d.cases) for d in duels if d)
    return replace(verdict, head_to_head=won)


def _note(labels: tuple[str, ...], found: HeadToHead, able: Sequence[tuple[int, Candidate]]) -> str:
    said = [
        f"{label} is {e.status} on fresh inputs, which is its verdict now: {e.message}"
        for label, e in zip(labels, found.evaluations, strict=True)
        if e.status != "correct"
    ]
    if left := len(able) - len(labels):
        said.append(
            f"{left} more may be as fast: {MOST_COMPARED} can be timed at once; name those alone"
        )
    return "; ".join(said)
