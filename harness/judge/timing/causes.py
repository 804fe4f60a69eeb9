"""Causes of a wide interval, read from the rounds of a case, process by process. Pure; for
information only, it decides nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

from ..figures import case_times, statistics
from ..figures.block import Block

WIDE = 1.2  # least ratio of an interval's ends for which a cause is looked for
APART = 1.15  # least ratio of the medians of processes that count as different
# least ratio of two narrow halves of a side's rounds that count as two speeds
SPEEDS = 1.25
PARAMETERS = 1.3  # least ratio of a candidate's times with other parameters
NARROW = 1.1  # the most third over first quartile of one speed
STEADY = 1.5  # the most 90 % over 10 % quantile of rounds that do not scatter
FAULTS = 1.0  # page faults per call
CLOCKS = 1.05  # tolerated ratio of clocks between a case's processes, just after timing


@dataclass(frozen=True)
class Noise:
    """ratios: for each process the median of its paired ratios (above 1: the candidate is faster),
    with the corrections of the figure. causes: in words, the most significant first; empty if the
    rounds show none."""

    ratios: tuple[float, ...]
    causes: tuple[str, ...]

    def __str__(self) -> str:
        shown = ", ".join(f"{ratio:.3g}x" for ratio in self.ratios)
        return f"by process {shown}; {'; '.join(self.causes) or 'no cause shows in the rounds'}"


def explain(times: case_times.CaseTimes, baseline: str) -> Noise:
    """Explain the noise in the valid blocks of a case. baseline: the one whose pairs are
    compared."""
    if not times.pairs(baseline):
        return Noise((), ())
    pairs, blocks = times.confirmed_pairs(baseline), times.blocks
    ratios = tuple(median([b / c for b, c in process]) for process in pairs)
    by_parameters = _parameter_causes(blocks, baseline)
    causes = [
        *by_parameters,
        *_outlier(ratios, pairs),
        *_side_causes("the baseline", [[b for b, _ in process] for process in pairs]),
    ]
    if not by_parameters:
        causes += _side_causes("the candidate", [[c for _, c in process] for process in pairs])
    causes += _fault_causes("the candidate", blocks, lambda block: block.faults)
    causes += _fault_causes("the baseline", blocks, lambda block: block.baseline_faults)
    causes += _clock_causes([block.after.core_mhz for block in blocks if block.after.core_mhz])
    causes += {each.signal: each.text for block in blocks for each in block.disturbances}.values()
    return Noise(ratios, tuple(causes))


def _parameter_causes(blocks: Sequence[Block], baseline: str) -> list[str]:
    """Describe a candidate that takes another time after the parameters have changed, beyond what
    the baseline does."""
    before: list[tuple[float, float]] = []
    after: list[tuple[float, float]] = []
    for block in blocks:
        if block.changed_at:
            rounds = block.pairs.get(baseline, [])
            before += rounds[: block.changed_at]
            after += rounds[block.changed_at :]
    if not before or not after:
        return []
    (first_baseline, first), (later_baseline, later) = (
        (median([b for b, _ in rounds]), median([c for _, c in rounds]))
        for rounds in (before, after)
    )
    factor = (later / first) / (later_baseline / first_baseline)
    if 1 / PARAMETERS < factor < PARAMETERS:
        return []
    return [
        (
            f"with the parameters as constructed the candidate takes {first:.4g} us, and "
            f"{later:.4g} us after they have changed: does one of its paths rest on their "
            "values? Half of the bursts come after the change"
        )
    ]


def _outlier(ratios: Sequence[float], pairs: Sequence[Sequence[tuple[float, float]]]) -> list[str]:
    """Describe one process whose ratio is far from those of all others, which agree, and the side
    of it that is unusual."""
    if len(ratios) < 3:
        return []
    ordered = sorted(range(len(ratios)), key=lambda number: ratios[number])
    for odd, remainder in ((ordered[0], ordered[1:]), (ordered[-1], ordered[:-1])):
        other_ratios = [ratios[number] for number in remainder]
        away = max(ratios[odd] / max(other_ratios), min(other_ratios) / ratios[odd])
        if away > APART and max(other_ratios) / min(other_ratios) < APART:
            factors = [
                median([pair[side] for pair in pairs[odd]])
                / median([pair[side] for n in remainder for pair in pairs[n]])
                for side in (0, 1)
            ]
            side = 0 if abs(factors[0] - 1) > abs(factors[1] - 1) else 1
            who = ("the baseline", "the candidate")[side]
            return [
                (
                    f"process {odd + 1} of {len(ratios)} stands alone: {who} took "
                    f"{factors[side]:.2f} times as long there as in the others"
                )
            ]
    return []


def _side_causes(who: str, processes: Sequence[Sequence[float]]) -> list[str]:
    """Describe whether a side has two speeds or scatters."""
    times = [us for process in processes for us in process]
    if len(times) < 8:
        return []
    ordered = sorted(times)
    fast, slow = _halves(ordered)
    if slow and median(slow) > SPEEDS * median(fast) and _is_narrow(fast) and _is_narrow(slow):
        return [
            (
                f"{who} has two speeds: {median(fast):.4g} us in {len(fast)} of {len(times)} "
                f"bursts, {median(slow):.4g} us in the others"
            )
        ]
    spread = statistics.quantile(times, 0.9) / max(statistics.quantile(times, 0.1), 1e-9)
    if spread > STEADY:
        return [f"bursts of {who} scatter by a factor of {spread:.1f} (10 to 90 %)"]
    return []


def _halves(ordered: Sequence[float]) -> tuple[Sequence[float], Sequence[float]]:
    """Split at the largest step between neighbours; each part has at least an eighth of all."""
    least = max(2, len(ordered) // 8)
    steps = [
        (ordered[n] / max(ordered[n - 1], 1e-9), n) for n in range(least, len(ordered) - least + 1)
    ]
    place = max(steps)[1]
    return ordered[:place], ordered[place:]


def _is_narrow(times: Sequence[float]) -> bool:
    return statistics.quantile(times, 0.75) <= NARROW * statistics.quantile(times, 0.25)


def _clock_causes(mhz: Sequence[int]) -> list[str]:
    """Describe different clocks: a busy core's clock depends on heat and on the other cores."""
    if len(mhz) < 2 or max(mhz) <= CLOCKS * min(mhz):
        return []
    return [f"the core ran at {min(mhz)} MHz in one process and at {max(mhz)} MHz in another"]


def _fault_causes(
    who: str, blocks: Sequence[Block], of: Callable[[Block], Sequence[float]]
) -> list[str]:
    """Describe page faults in only some bursts: memory that is new in these and reused in
    others."""
    counts = [faults for block in blocks for faults in of(block)]
    high_counts = [faults for faults in counts if faults > FAULTS]
    if not high_counts or len(high_counts) == len(counts):
        return []
    return [
        (
            f"{who} met {median(high_counts):.0f} page faults a call in {len(high_counts)} of "
            f"{len(counts)} bursts, and none in the others"
        )
    ]
