"""F's interval, and the figures that goals name. F itself is defined with the evaluation
(harness.types.fitness)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from harness.types import CaseResult, eligible, fitness


@dataclass(frozen=True)
class Figures:
    """Figures of one evaluation. latency_us: weighted mean over the cases, microseconds.
    roofline_fraction: the smallest achieved fraction of the measured ceiling over the cases. None
    where a case lacks the figure."""

    latency_us: float | None = None
    roofline_fraction: float | None = None


def interval(cases: Sequence[CaseResult]) -> tuple[float, float] | None:
    """Return the interval of F from the cases' 95 % intervals: exp(sum of w_c * ln(bound_c)) for
    each bound.

    Adding the bounds is valid for any correlation between cases (they share one machine and time),
    so the interval is never too narrow. None when F is None or 0, or when a timed case has no
    interval.
    """
    if not fitness(cases):
        return None
    timed = [c for c in cases if c.speedup is not None and not c.held_out and c.weight > 0]
    total = sum(c.weight for c in timed)
    low = high = 0.0
    for case in timed:
        if case.interval is None or case.interval[0] <= 0:
            return None
        low += case.weight / total * math.log(case.interval[0])
        high += case.weight / total * math.log(case.interval[1])
    return math.exp(low), math.exp(high)


def figures(cases: Sequence[CaseResult]) -> Figures:
    """Return the figures for latency and roofline goals, without held-out cases."""
    seen = [c for c in cases if not c.held_out and c.weight > 0]
    latencies = [c.latency_us for c in seen if c.latency_us is not None]
    rooflines = [c.roofline_fraction for c in seen if c.roofline_fraction is not None]
    total = sum(c.weight for c in seen)
    complete = bool(seen) and len(latencies) == len(seen)
    mean = (
        sum(c.weight * t for c, t in zip(seen, latencies, strict=True)) / total
        if complete
        else None
    )
    return Figures(mean, min(rooflines) if seen and len(rooflines) == len(seen) else None)


__all__ = ["Figures", "eligible", "figures", "fitness", "interval"]
