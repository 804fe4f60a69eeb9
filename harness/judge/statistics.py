"""From paired times to an interval and a verdict."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

from ..types import Verdict

RESAMPLES = 800
MIN_PROCESSES = 3


@dataclass(frozen=True)
class Comparison:
    """speedup: exp of the median log ratio, baseline over candidate. interval: 95 % bootstrap, processes resampled first."""

    speedup: float
    interval: tuple[float, float]
    verdict: Verdict
    pairs: int


def compare(processes: Sequence[Sequence[tuple[float, float]]], margin: float, rng: random.Random) -> Comparison:
    """processes: for each fresh process pair its (baseline, candidate) times. Nothing is dropped.

    margin: how far above 1 the lower bound must lie to be called faster (and its inverse for slower)."""
    ratios = [[math.log(b / c) for b, c in pairs] for pairs in processes if pairs]
    pooled = [r for process in ratios for r in process]
    low, high = _interval(ratios, rng)
    each_low, each_high = zip(*(_interval([process], rng) for process in ratios), strict=True)
    least = math.log(margin)
    enough = len(ratios) >= MIN_PROCESSES
    verdict: Verdict = "unclear"
    if enough and low > least and min(each_low) > 0:
        verdict = "faster"
    elif enough and high < -least and max(each_high) < 0:
        verdict = "slower"
    elif -least <= low and high <= least:
        verdict = "same"
    return Comparison(math.exp(median(pooled)), (math.exp(low), math.exp(high)), verdict, len(pooled))


def median(values: Sequence[float]) -> float:
    """The middle value, or the mean of the two middle ones."""
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def least_difference(larger: Sequence[float], smaller: Sequence[float]) -> float:
    """The lower end of the 95 % bootstrap interval of the difference of two lower quartiles; the same for equal values."""
    rng = random.Random(0)
    found = sorted(
        lower_quartile(rng.choices(larger, k=len(larger))) - lower_quartile(rng.choices(smaller, k=len(smaller)))
        for _ in range(RESAMPLES)
    )
    return found[int(0.025 * RESAMPLES)]


def lower_quartile(values: Sequence[float]) -> float:
    """The value that a quarter lies below."""
    return sorted(values)[len(values) // 4]


def _interval(ratios: Sequence[Sequence[float]], rng: random.Random) -> tuple[float, float]:
    """95 % percentile bootstrap of the median; hierarchical: processes are drawn first, then pairs within each."""
    medians = []
    for _ in range(RESAMPLES):
        chosen = rng.choices(ratios, k=len(ratios)) if len(ratios) > 1 else ratios
        medians.append(median([r for process in chosen for r in rng.choices(process, k=len(process))]))
    medians.sort()
    return medians[int(0.025 * RESAMPLES)], medians[int(0.975 * RESAMPLES) - 1]
