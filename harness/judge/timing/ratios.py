"""The ratio of two candidates that were timed in the same rounds, and its certainty."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...types import Case, CaseDuel, Duel, Signal, Verdict
from ..figures import case_times, statistics
from ..figures.block import OTHER, against
from ..stage_context import StageContext
from .concluding import drift
from .left_open import hidden_us


@dataclass(frozen=True)
class _Ratio:
    """One case of a duel on the log scale, with the bounds of its interval. vouched: the bounds
    after allowing for time that each side's calls could hide. barred: whether anything else leaves
    open which one is faster. open_us: see CaseDuel."""

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
    """A candidate of a comparison, by its number, with its measurements."""

    number: int
    context: StageContext
    times: Mapping[str, case_times.CaseTimes]


def duel(first: Entrant, second: Entrant, rng: random.Random) -> tuple[Duel, dict[int, Signal]]:
    """Compare the first candidate with the second. If the figures show one as faster but the judge
    cannot certify it, a signal is returned under that candidate's number."""
    case_ratios, margin = _ratios(first, second, rng), first.context.task.family.MARGIN
    cases = tuple(_case(r, margin) for r in case_ratios)
    verdict, by_figure = _verdict(case_ratios, margin), _by_figure(case_ratios, margin)
    doubted = {}
    if verdict == "inconclusive" and by_figure in ("faster", "slower"):
        winner, loser = (first, second) if by_figure == "faster" else (second, first)
        text = (
            f"faster than candidate {loser.number + 1} of the comparison by the figures, but by "
            "less than the uncertainty of the judge's clock, or the device was shared, or an "
            "output is predictable"
        )
        doubted[winner.number] = Signal("clock_open", text)
    mean, low, high = (math.exp(_mean(case_ratios, values)) for values in _columns(case_ratios))
    return Duel(first.number, second.number, mean, (low, high), verdict, cases), doubted


def _case(r: _Ratio, margin: float) -> CaseDuel:
    between = (math.exp(r.low), math.exp(r.high))
    return CaseDuel(
        r.case.name, math.exp(r.value), between, _verdict([r], margin), r.pairs, r.open_us
    )


def is_settled(first: Entrant, second: Entrant, rng: random.Random) -> bool:
    """Return whether more processes would not change the result for the two candidates."""
    case_ratios, margin = _ratios(first, second, rng), first.context.task.family.MARGIN
    of_figures_alone = any(r.barred for r in case_ratios)
    return (
        _by_figure(case_ratios, margin) if of_figures_alone else _verdict(case_ratios, margin)
    ) != "inconclusive"


def _ratios(first: Entrant, second: Entrant, rng: random.Random) -> list[_Ratio]:
    """Return the ratios of the cases with a weight; of all cases if none has one."""
    judged = first.context.cases
    cases = [case for case in judged if case.weight > 0] or judged
    return [_ratio(first, second, case, rng) for case in cases]


def _ratio(first: Entrant, second: Entrant, case: Case, rng: random.Random) -> _Ratio:
    first_times, second_times, task = (
        first.times[case.name],
        second.times[case.name],
        first.context.task,
    )
    (baseline,) = first_times.blocks[0].pairs
    first_us, second_us = (
        [[us for _, us in process] for process in times.confirmed_pairs(baseline)]
        for times in (first_times, second_times)
    )
    processes = [list(zip(b, a, strict=True)) for a, b in zip(first_us, second_us, strict=True)]
    margin, process_us = task.family.MARGIN, task.family.PROCESS_US
    comparison = statistics.compare(processes, margin, rng, process_us=process_us)
    low, high = map(math.log, comparison.interval)
    (first_hidden, both_us), (second_hidden, _) = (
        _hidden_time(first.context, case.name, each, other, us)
        for each, other, us in (
            (first_times, second_times, first_us),
            (second_times, first_times, second_us),
        )
    )
    is_contended = any(
        block.contended for times in (first_times, second_times) for block in times.blocks
    )
    has_drifted = any(
        drift(first.context, case, times) != 1.0 for times in (first_times, second_times)
    )
    pool = task.pools[case.name]
    is_barred = (
        is_contended
        or has_drifted
        or bool(pool.predictable or pool.sampled_alike or pool.hardly_read)
    )
    is_barred |= bool(first_times.state_doubt or second_times.state_doubt)
    # who waits for the device bears a part of the judge's work
    is_barred |= first_times.waits != second_times.waits
    return _Ratio(
        case,
        math.log(comparison.speedup),
        low,
        high,
        (low - first_hidden, high + second_hidden),
        comparison.pairs,
        is_barred,
        both_us,
    )


def _hidden_time(
    context: StageContext,
    case: str,
    times: case_times.CaseTimes,
    opponent: case_times.CaseTimes,
    processes: Sequence[Sequence[float]],
) -> tuple[float, float]:
    """Return by how much, on the log scale, a candidate's calls may be longer than its figure
    without the judge's clock or the other candidate's calls showing it; and the microseconds
    excluded from this, the evaluator's own part of a call, which is the same for both."""
    paired_times = case_times.CaseTimes(
        [
            against(own_block, block)
            for own_block, block in zip(times.blocks, opponent.blocks, strict=True)
        ]
    )
    both_us = paired_times.nothing_us[1] if paired_times.nothing_us else 0.0
    open_us = paired_times.clock_open_us - both_us
    open_us += hidden_us(context, paired_times, case, OTHER)
    open_us += paired_times.alone_open_us(OTHER) + times.unseen_us
    open_us += paired_times.host_open_us(OTHER)
    return math.log1p(
        open_us / statistics.median([us for process in processes for us in process])
    ), both_us


def _by_figure(case_ratios: Sequence[_Ratio], margin: float) -> Verdict:
    """Return the verdict on all cases together by the intervals alone."""
    return _classify(
        _mean(case_ratios, [r.low for r in case_ratios]),
        _mean(case_ratios, [r.high for r in case_ratios]),
        margin,
    )


def _verdict(case_ratios: Sequence[_Ratio], margin: float) -> Verdict:
    """Return the verdict that the judge can certify."""
    by_figure = _by_figure(case_ratios, margin)
    if by_figure not in ("faster", "slower"):
        return by_figure
    low, high = (_mean(case_ratios, [r.vouched[side] for r in case_ratios]) for side in (0, 1))
    vouched = _classify(low, high, margin)
    return (
        vouched
        if vouched == by_figure and not any(r.barred for r in case_ratios)
        else "inconclusive"
    )


def _classify(low: float, high: float, margin: float) -> Verdict:
    edge = math.log(margin)
    if low > edge:
        return "faster"
    if high < -edge:
        return "slower"
    return "equivalent" if -edge <= low and high <= edge else "inconclusive"


def _columns(case_ratios: Sequence[_Ratio]) -> tuple[list[float], list[float], list[float]]:
    return (
        [r.value for r in case_ratios],
        [r.low for r in case_ratios],
        [r.high for r in case_ratios],
    )


def _mean(case_ratios: Sequence[_Ratio], values: Sequence[float]) -> float:
    """Return the mean with the weights of the cases."""
    weights = [r.case.weight or 1.0 for r in case_ratios]
    return sum(w * value for w, value in zip(weights, values, strict=True)) / sum(weights)
