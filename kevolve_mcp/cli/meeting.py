"""Timing the correct candidates of `kevolve evaluate` against each other in the same rounds.

Speed-ups over a baseline that were measured minutes apart cannot tell close candidates apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from harness.types import (
    LEAST_EFFORT,
    MOST_COMPARED,
    Candidate,
    ComparisonRequest,
    Duel,
    HeadToHead,
)
from kevolve_mcp.errors import EvaluatorUnavailable, TaskRefused, Unavailable
from kevolve_mcp.executors.base import tried
from kevolve_mcp.search import interval

from .calls import advice
from .judging import OpenedOrder, progress_to
from .verdicts import Verdict, Won

ALONE = "no other correct candidate was left to time it against"


@dataclass(frozen=True)
class FileMeeting:
    """Candidates timed against each other. labels: their names, the best first. duels: each against
    each later one, by place in labels. processes: fresh processes of each. seconds: the time it
    took. notes: which candidates are missing and why, and which are not eligible."""

    labels: tuple[str, ...]
    duels: tuple[Duel, ...] = ()
    processes: int = 0
    seconds: float = 0.0
    notes: tuple[str, ...] = ()


async def meet(
    judge: OpenedOrder, verdicts: Sequence[Verdict]
) -> tuple[FileMeeting | None, list[Verdict]]:
    """Time the candidates that may be the best against each other.

    A candidate that turns out to be incorrect on the fresh inputs gets that as its verdict.

    Args:
        judge: The open task.
        verdicts: One for each entry.

    Returns:
        The results, None where fewer than two are correct; and the verdicts, completed with the
        results or with the reason why a candidate was not compared.
    """
    ranked = _ranked(verdicts)
    if len(ranked) < 2:
        return None, list(verdicts)
    able, known = _contenders(ranked, verdicts)
    if len(able) < 2:
        known[able[0]] = replace(known[able[0]], not_compared=ALONE)
        return FileMeeting((), notes=_notes(known)), known
    labels = tuple(verdicts[place].candidate for place in able)
    order = judge.order
    judge.announce(
        f"timing {', '.join(labels)} against each other: about as long as judging them took"
    )
    candidates = tuple(
        entry.candidate
        for entry in (order.entries[place] for place in able)
        if isinstance(entry.candidate, Candidate)
    )
    request = ComparisonRequest(
        candidates, order.policy, LEAST_EFFORT if order.purpose == "search" else 1.0
    )
    progress = progress_to(judge.announce)
    call = partial(judge.executor.compare, judge.task, request, order.target, progress=progress)
    try:
        comparison = await tried(call, progress)
    except (EvaluatorUnavailable, TaskRefused, Unavailable) as error:
        why = f"not timed against others: {error.message}. {advice(error)}".strip()
        for place in able:
            known[place] = replace(known[place], not_compared=why)
        return FileMeeting((), notes=_notes(known)), known
    for number, place in enumerate(able):
        known[place] = _with(known[place], comparison, number, labels)
    lost = [
        f"{v.candidate} slows down a protected case, so it is not eligible, even if it wins"
        for v in (known[place] for place in able)
        if v.head_to_head and not v.eligible
    ]
    notes = (*_notes(known), *lost)
    return FileMeeting(
        labels, comparison.in_order(), comparison.processes, comparison.seconds, notes
    ), known


def _ranked(verdicts: Sequence[Verdict]) -> list[int]:
    """The places of the correct, timed candidates: eligible ones first, then by F."""
    some = [place for place, verdict in enumerate(verdicts) if verdict.correct and verdict.fitness]
    return sorted(
        some, key=lambda place: (not verdicts[place].eligible, -(verdicts[place].fitness or 0.0))
    )


def _contenders(
    ranked: Sequence[int], verdicts: Sequence[Verdict]
) -> tuple[list[int], list[Verdict]]:
    """The candidates to compare: the first two and all whose intervals overlap that of the first,
    each text once, at most MOST_COMPARED; and the verdicts, in which the others get a reason."""
    known, able, texts = list(verdicts), list[int](), dict[str, str]()
    best = verdicts[ranked[0]]
    for place in ranked:
        verdict = verdicts[place]
        text = verdict.evaluation.candidate if verdict.evaluation else ""
        if text in texts:
            why = f"the same text as {texts[text]}"
        elif len(able) > 1 and _bounds(verdict)[1] < _bounds(best)[0]:
            why = f"clearly slower than {best.candidate}: its interval of F lies below"
        elif len(able) == MOST_COMPARED:
            why = (
                f"at most {MOST_COMPARED} are timed together; evaluate it with {best.candidate} "
                "alone"
            )
        else:
            able.append(place)
            why = ""
        texts.setdefault(text, verdict.candidate)
        known[place] = replace(verdict, not_compared=why)
    return able, known


def _bounds(verdict: Verdict) -> tuple[float, float]:
    """The interval of F, unbounded where there is none."""
    return interval(verdict.cases) or (0.0, float("inf"))


def _with(
    verdict: Verdict, comparison: HeadToHead, number: int, labels: tuple[str, ...]
) -> Verdict:
    evaluation = comparison.evaluations[number]
    if evaluation.status != "correct":
        why = (
            f"correct when judged alone, but {evaluation.status} on the fresh inputs of the "
            "comparison, which decides"
        )
        changed = Verdict.of(verdict.candidate, evaluation, verdict.reference_cases)
        return replace(changed, not_compared=why)
    duels = [comparison.duel(number, other) for other in range(len(labels))]
    won = tuple(Won(labels[d.second], d.ratio, d.interval, d.verdict, d.cases) for d in duels if d)
    return replace(verdict, head_to_head=won, not_compared="" if won else ALONE)


def _notes(verdicts: Iterable[Verdict]) -> tuple[str, ...]:
    """Why some were not compared, each reason once."""
    reasons: dict[str, list[str]] = {}
    for verdict in verdicts:
        if verdict.not_compared:
            reasons.setdefault(verdict.not_compared, []).append(verdict.candidate)
    return tuple(f"{', '.join(names)}: {why}" for why, names in reasons.items())
