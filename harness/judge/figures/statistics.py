"""From paired times to an interval and a verdict."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median, variance

from ...types import Verdict

__all__ = ["Comparison", "compare", "least_difference", "median", "quantile"]

RESAMPLES = 800
MIN_PROCESSES = 3
# half of the 95 % interval, as a logarithm, between single pairs of processes; 33 such pairs of
# equal kernels came to -0.07 to 0.11 on two noisy cores
ONE_PROCESS = 0.15
NORMAL = 1.95996  # the 97.5 % quantile of the normal distribution
# of Student's t for 1, 2, … degrees of freedom (any table of it)
STUDENT = (12.71, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201)


@dataclass(frozen=True)
class Comparison:
    """The result of a comparison. speedup: exp of the median log ratio, baseline over candidate.
    interval: 95 %, see `compare`. doubted: faster by the figures, but by less than the uncertainty
    of the judge's clock."""

    speedup: float
    interval: tuple[float, float]
    verdict: Verdict
    pairs: int
    doubted: bool = False


def compare(
    processes: Sequence[Sequence[tuple[float, float]]],
    margin: float,
    rng: random.Random,
    *,
    baselines: int = 0,
    process_us: float = 0.0,
    open_us: float = 0.0,
) -> Comparison:
    """Compare paired times and reach a verdict.

    processes: for each fresh candidate process its (baseline, candidate) times in microseconds; all
    are used. margin: how far above 1 the lower bound must lie for "faster" (its inverse for
    "slower"). baselines: the number of baseline processes, where it is known and smaller than that
    of candidate processes; 0 otherwise. process_us: the known standard deviation between equal
    processes. open_us: by how much a candidate's call may be longer than its figure without the
    judge's clock showing it; an advantage within it is not called faster.

    The interval covers two others: a bootstrap of the median that draws processes first and pairs
    within them, and Student's interval of the processes' medians. The first describes the scatter
    of pairs, but three processes are too few for it to show how processes differ (memory addresses
    alone change a small kernel by some per cent); the second accounts for their number. Since
    processes may agree by luck, their spread counts as at least process_us. For a single process
    the spread is unknown, so its interval is widened by ONE_PROCESS."""
    ratios = [[math.log(b / c) for b, c in pairs] for pairs in processes if pairs]
    pooled = [r for process in ratios for r in process]
    low, high = _interval(ratios, rng)
    if len(ratios) > 1:
        usual = median([us for process in processes for pair in process for us in pair])
        center, half = _between(ratios, rng, baselines, 2 * (process_us / usual) ** 2)
        low, high = min(low, center - half), max(high, center + half)
    else:
        low, high = low - ONE_PROCESS, high + ONE_PROCESS
    least = math.log(margin)
    candidate_us = median([us for process in processes for _, us in process])
    vouched = low - math.log1p(open_us / candidate_us)
    enough = len(ratios) >= MIN_PROCESSES
    verdict: Verdict = "inconclusive"
    if enough and vouched > least:
        verdict = "faster"
    elif enough and high < -least:
        verdict = "slower"
    elif enough and -least <= low and high <= least:
        verdict = "equivalent"
    doubted = enough and vouched <= least < low
    return Comparison(
        math.exp(median(pooled)), (math.exp(low), math.exp(high)), verdict, len(pooled), doubted
    )


def quantile(values: Sequence[float], share: float) -> float:
    """Return the value below which that share of the values lies."""
    return sorted(values)[int(share * (len(values) - 1))]


def least_difference(
    larger: Sequence[float], smaller: Sequence[float], share: float = 0.25
) -> float:
    """Return the lower end of the 95 % bootstrap interval of the difference of two quantiles.
    Deterministic for equal values."""
    import torch

    generator = torch.Generator().manual_seed(0)

    def quantiles(values: Sequence[float]) -> torch.Tensor:
        picks = torch.randint(len(values), (RESAMPLES, len(values)), generator=generator)
        return (
            torch.tensor(values, dtype=torch.float64)[picks]
            .sort(1)
            .values[:, int(share * len(values))]
        )

    differences = (quantiles(larger) - quantiles(smaller)).sort().values
    return float(differences[int(0.025 * RESAMPLES)])


def _interval(ratios: Sequence[Sequence[float]], rng: random.Random) -> tuple[float, float]:
    """Return the 95 % percentile bootstrap interval of the median. Hierarchical: processes are
    drawn first, then pairs within each."""
    import torch

    generator = torch.Generator().manual_seed(rng.getrandbits(63))
    lengths = torch.tensor([len(process) for process in ratios])
    width = int(lengths.max())
    table = torch.tensor(
        [[*process, *[math.nan] * (width - len(process))] for process in ratios],
        dtype=torch.float64,
    )
    picks = torch.randint(len(ratios), (RESAMPLES, len(ratios)), generator=generator)
    length = lengths[picks].unsqueeze(-1)
    places = (
        torch.rand(RESAMPLES, len(ratios), width, generator=generator, dtype=torch.float64) * length
    ).long()
    samples = table[picks.unsqueeze(-1), places].masked_fill(
        torch.arange(width) >= length, math.nan
    )
    medians = samples.reshape(RESAMPLES, -1).nanquantile(0.5, dim=1).sort().values
    return float(medians[int(0.025 * RESAMPLES)]), float(medians[int(0.975 * RESAMPLES) - 1])


def _between(
    ratios: Sequence[Sequence[float]], rng: random.Random, baselines: int, least: float
) -> tuple[float, float]:
    """Return the mean of the processes' medians and half of its 95 % interval. least: the least
    variance of the medians. A few baseline processes are only as many draws of the differences
    between processes: this part of the variance, without the noise inside processes, shrinks only
    with their number."""
    medians = [median(process) for process in ratios]
    count, spread = len(medians), max(least, variance(medians))
    uncertain = spread / count
    if baselines:
        inside = fmean(
            ((high - low) / (2 * 1.96)) ** 2 for low, high in (_interval([p], rng) for p in ratios)
        )
        uncertain += max(0.0, spread - inside) / baselines
    return fmean(medians), _student(count - 1) * math.sqrt(uncertain)


def _student(freedom: int) -> float:
    """Return the 97.5 % quantile of Student's t. Beyond the table by Cornish and Fisher's expansion
    (Abramowitz and Stegun 26.7.5), with an error of at most 0.002."""
    if freedom <= len(STUDENT):
        return STUDENT[freedom - 1]
    z = NORMAL
    return z + (z**3 + z) / (4 * freedom) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)
