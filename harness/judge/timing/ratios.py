"""What two candidates that were timed in the same rounds differ by, and how sure that is."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...types import Case, CaseDuel, Duel, Signal, Verdict
from ..figures import case_times, statistics
from ..stage_context import StageContext
from .concluding import drift


@dataclass(frozen=True)
class _Ratio:
    """One case of a duel on the log scale, with the bounds of its interval. vouched: the same
    bounds if each side's calls took as much longer as nothing would show. barred: whether something
    else leaves open who is faster. open_us: see CaseDuel."""

    case: Case
    value: float
    low: float
    high: float
    vouched: tuple[float, float]
    pairs: int
    barred: bool
    open_us: float


@dataclass(frozen=True)
class Entrant:
    """A candidate of a comparison, by its number, with what was measured of it."""

    number: int
    context: StageContext
    times: Mapping[str, case_times.CaseTimes]


def duel(first: Entrant, second: Entrant, rng: random.Random) -> tuple[Duel, dict[int, Signal]]:
    """The first candidate against the second. Where the figures call one faster and the judge does
    not vouch for it, that one's number comes with a signal."""
    found, margin = _ratios(first, second, rng), first.context.task.family.MARGIN
    cases = tuple(_case(r, margin) for r in found)
    verdict, by_figure = _verdict(found, margin), _by_figure(found, margin)
    doubted = {}
    if verdict == "inconclusive" and by_figure in ("faster", "slower"):
        winner, loser = (first, second) if by_figure == "faster" else (second, first)
        text = (
            f"faster than candidate {loser.number + 1} of the comparison by the figures, but not "
            "by more than the judge's clock leaves open, or the device was shared or an output "
            "known beforehand"
        )
        doubted[winner.number] = Signal("clock_open", text)
    mean, low, high = (math.exp(_mean(found, some)) for some in _columns(found))
    return Duel(first.number, second.number, mean, (low, high), verdict, cases), doubted


def _case(r: _Ratio, margin: float) -> CaseDuel:
    between = (math.exp(r.low), math.exp(r.high))
    return CaseDuel(
        r.case.name, math.exp(r.value), between, _verdict([r], margin), r.pairs, r.open_us
    )


def is_settled(first: Entrant, second: Entrant, rng: random.Random) -> bool:
    """Whether more processes would not change what can be said of the two."""
    found, margin = _ratios(first, second, rng), first.context.task.family.MARGIN
    of_figures_alone = any(r.barred for r in found)
    return (
        _by_figure(found, margin) if of_figures_alone else _verdict(found, margin)
    ) != "inconclusive"


def _ratios(first: Entrant, second: Entrant, rng: random.Random) -> list[_Ratio]:
    """Of the cases that decide: all, where none has a weight."""
    judged = first.context.cases
    cases = [case for case in judged if case.weight > 0] or judged
    return [_ratio(first, second, case, rng) for case in cases]


def _ratio(first: Entrant, second: Entrant, case: Case, rng: random.Random) -> _Ratio:
    own, other, task = first.times[case.name], second.times[case.name], first.context.task
    (baseline,) = own.blocks[0].pairs
    ours, theirs = (
        [[us for _, us in process] for process in times.confirmed(baseline)]
        for times in (own, other)
    )
    processes = [list(zip(b, a, strict=True)) for a, b in zip(ours, theirs, strict=True)]
    margin, process_us = task.family.MARGIN, task.family.PROCESS_US
    found = statistics.compare(processes, margin, rng, process_us=process_us)
    low, high = map(math.log, found.interval)
    (hidden, both_us), (hidden_other, _) = _hidden(own, other, ours), _hidden(other, own, theirs)
    contended = any(block.contended for times in (own, other) for block in times.blocks)
    drifted = any(drift(first.context, case, times) != 1.0 for times in (own, other))
    barred = contended or drifted or bool(task.pools[case.name].predictable)
    return _Ratio(
        case,
        math.log(found.speedup),
        low,
        high,
        (low - hidden, high + hidden_other),
        found.pairs,
        barred,
        both_us,
    )


def _hidden(
    own: case_times.CaseTimes, other: case_times.CaseTimes, processes: Sequence[Sequence[float]]
) -> tuple[float, float]:
    """By how much a candidate's calls may be longer than its figure, on the log scale, and neither
    the judge's clock nor the other candidate's calls would show it; and the microseconds that are
    left out of that: the evaluator's own part of a call, which is the same for both."""
    beside = case_times.CaseTimes(
        [
            case_times.against(own_block, block)
            for own_block, block in zip(own.blocks, other.blocks, strict=True)
        ]
    )
    both_us = beside.nothing_us[1] if beside.nothing_us else 0.0
    hidden_us = beside.open_us - both_us + beside.alone_open_us(case_times.OTHER)
    return math.log1p(
        hidden_us / statistics.median([us for process in processes for us in process])
    ), both_us


def _by_figure(found: Sequence[_Ratio], margin: float) -> Verdict:
    """What the intervals alone say of the cases together."""
    return _judged(
        _mean(found, [r.low for r in found]), _mean(found, [r.high for r in found]), margin
    )


def _verdict(found: Sequence[_Ratio], margin: float) -> Verdict:
    """What the judge vouches for."""
    by_figure = _by_figure(found, margin)
    if by_figure not in ("faster", "slower"):
        return by_figure
    low, high = (_mean(found, [r.vouched[side] for r in found]) for side in (0, 1))
    vouched = _judged(low, high, margin)
    return vouched if vouched == by_figure and not any(r.barred for r in found) else "inconclusive"


def _judged(low: float, high: float, margin: float) -> Verdict:
    edge = math.log(margin)
    if low > edge:
        return "faster"
    if high < -edge:
        return "slower"
    return "equivalent" if -edge <= low and high <= edge else "inconclusive"


def _columns(found: Sequence[_Ratio]) -> tuple[list[float], list[float], list[float]]:
    return [r.value for r in found], [r.low for r in found], [r.high for r in found]


def _mean(found: Sequence[_Ratio], values: Sequence[float]) -> float:
    """By the weights of the cases."""
    weights = [r.case.weight or 1.0 for r in found]
    return sum(w * value for w, value in zip(weights, values, strict=True)) / sum(weights)
