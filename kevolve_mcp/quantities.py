"""The format of quantities in texts, for all floors.

`times`, `span`, `latency` and `share` are for texts that models also read: ASCII, and only
significant digits. `speedup`, `interval`, `microseconds` and `percent` are for a person's terminal:
typographic symbols, and the same number of decimals in a column. `memory` and `duration` serve
both.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

NOTHING = "–"


def times(value: float | None, between: Sequence[float] | None = None) -> str:
    """Return a ratio with its interval: "1.83x [1.8, 1.86]"; "untimed" for None."""
    if value is None:
        return "untimed"
    return f"{value:.3g}x {span(between)}".rstrip()


def span(between: Sequence[float] | None) -> str:
    """Return an interval: "[1.8, 1.86]"; "" where there is none."""
    return f"[{between[0]:.3g}, {between[1]:.3g}]" if between else ""


def latency(value: float) -> str:
    """Return microseconds: "12.34 us"."""
    return f"{value:.4g} us"


def share(value: float) -> str:
    """Return a fraction: "83%"."""
    return f"{value:.0%}"


def speedup(value: float | None, between: Sequence[float] | None = None) -> str:
    """Return a ratio with its interval: "1.83× [1.79, 1.88]"; a dash where nothing was measured."""
    said = NOTHING if value is None else f"{value:.2f}×" if value < 100 else f"{value:.0f}×"
    return f"{said} {interval(between)}".rstrip()


def interval(between: Sequence[float] | None) -> str:
    """Return an interval: "[1.79, 1.88]"; "" where there is none."""
    return f"[{between[0]:.2f}, {between[1]:.2f}]" if between else ""


def microseconds(value: float | None) -> str:
    """Return three significant figures with the unit that suits: 12.3 µs, 4.56 ms, 1.20 s."""
    if value is None or not math.isfinite(value):
        return NOTHING
    for limit, factor, unit in ((1e3, 1.0, "µs"), (1e6, 1e3, "ms"), (math.inf, 1e6, "s")):
        if value < limit:
            return f"{_three(value / factor)} {unit}"
    return NOTHING


def percent(value: float | None) -> str:
    """Return a fraction: "83 %"; a dash where there is none."""
    return NOTHING if value is None else share(value).replace("%", " %")


def duration(seconds: float) -> str:
    """Return seconds in the units that suit: 42 s, 3 min 05 s, 2 h 10 min."""
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def memory(size: int) -> str:
    """Return bytes: "12 MiB", "3.1 GiB"."""
    return f"{size / 2**30:.1f} GiB" if size >= 1 << 30 else f"{size / 2**20:.0f} MiB"


def _three(value: float) -> str:
    digits = 0 if value >= 100 else 1 if value >= 10 else 2
    return f"{value:.{digits}f}"
