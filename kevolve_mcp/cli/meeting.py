"""Candidates that `kevolve evaluate` found correct, timed against each other in the same rounds.

Speed-ups over a baseline that were taken minutes apart do not tell near candidates apart.
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

ALONE = "no other correct one was left to time it against"


@dataclass(frozen=True)
class FileMeeting:
    """labels: the candidates that met, the best one first; duels: each over each later one, by
    place in labels. processes: fresh ones of each; seconds: what it took. notes: who or what is
    missing and why, and who wins nothing by it."""

    labels: tuple[str, ...]
    duels: tuple[Duel, ...] = ()
    processes: int = 0
    seconds: float = 0.0
    notes: tuple[str, ...] = ()


async def meet(
    judge: OpenedOrder, verdicts: Sequence[Verdict]
) -> tuple[FileMeeting | None, list[Verdict]]:
    """How the candidates that may be the best fare against each other, and the verdicts with that,
    or with the reason why one was not compared. verdicts: one for each entry. None where fewer
    than two are correct.

    One that is found not to be correct now has that as its verdict: it had fresh inputs.
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
        f"{v.candidate} slows a protected case down, so it is not eligible, whatever it wins"
        for v in (known[place] for place in able)
        if v.head_to_head and not v.eligible
    ]
    notes = (*_notes(known), *lost)
    return FileMeeting(
        labels, comparison.in_order(), comparison.processes, comparison.seconds, notes
    ), known


def _ranked(verdicts: Sequence[Verdict]) -> list[int]:
    """The places of the correct ones that were timed: what is eligible first, then by F."""
    some = [place for place, verdict in enumerate(verdicts) if verdict.correct and verdict.fitness]
    return sorted(
        some, key=lambda place: (not verdicts[place].eligible, -(verdicts[place].fitness or 0.0))
    )


def _contenders(
    ranked: Sequence[int], verdicts: Sequence[Verdict]
) -> tuple[list[int], list[Verdict]]:
    """Of the ranked ones the first two and all whose intervals reach up to that of the first, each
    text once, MOST_COMPARED at most; and the verdicts, in which the others say why."""
    known, able, texts = list(verdicts), list[int](), dict[str, str]()
    best = verdicts[ranked[0]]
    for place in ranked:
        verdict = verdicts[place]
        text = verdict.evaluation.candidate if verdict.evaluation else ""
        if text in texts:
            why = f"the same text as {texts[text]}"
        elif len(able) > 1 and _bounds(verdict)[1] < _bounds(best)[0]:
            why = f"plainly behind {best.candidate}: the interval of F lies below"
        elif len(able) == MOST_COMPARED:
            why = f"{MOST_COMPARED} are timed at once; name it and {best.candidate} alone"
        else:
            able.append(place)
            why = ""
        texts.setdefault(text, verdict.candidate)
        known[place] = replace(verdict, not_compared=why)
    return able, known


def _bounds(verdict: Verdict) -> tuple[float, float]:
    """The interval of F; everything is possible where there is none."""
    return interval(verdict.cases) or (0.0, float("inf"))


def _with(
    verdict: Verdict, comparison: HeadToHead, number: int, labels: tuple[str, ...]
) -> Verdict:
    evaluation = comparison.evaluations[number]
    if evaluation.status != "correct":
        why = (
            f"correct when it was judged alone, {evaluation.status} with the fresh inputs of the "
            "comparison: that is its verdict"
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
