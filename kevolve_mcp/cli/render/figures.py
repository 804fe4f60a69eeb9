"""Numbers as a reader expects them."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rich.text import Text

NOTHING = "–"


def microseconds(value: float | None) -> str:
    """Three significant figures with the unit that suits: 12.3 µs, 4.56 ms, 1.20 s."""
    if value is None or not math.isfinite(value):
        return NOTHING
    for limit, factor, unit in ((1e3, 1.0, "µs"), (1e6, 1e3, "ms"), (math.inf, 1e6, "s")):
        if value < limit:
            return f"{_three(value / factor)} {unit}"
    return NOTHING


def speedup_text(value: float | None) -> str:
    """1.83×; a dash where nothing was measured."""
    return NOTHING if value is None else f"{value:.2f}×" if value < 100 else f"{value:.0f}×"


def interval_text(interval: Sequence[float] | None) -> str:
    """[1.79, 1.88]; empty where there is none."""
    return f"[{interval[0]:.2f}, {interval[1]:.2f}]" if interval else ""


def with_interval(value: float | None, interval: Sequence[float] | None) -> str:
    """1.83× [1.79, 1.88]"""
    return f"{speedup_text(value)} {interval_text(interval)}".strip()


def seconds(value: float) -> str:
    """42 s, 3 min 05 s, 2 h 10 min."""
    whole = max(0, round(value))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def percent(value: float | None) -> str:
    """0.83 as 83 %."""
    return NOTHING if value is None else f"{value:.0%}".replace("%", " %")


def _three(value: float) -> str:
    digits = 0 if value >= 100 else 1 if value >= 10 else 2
    return f"{value:.{digits}f}"


def cells(*texts: str) -> list[Text]:
    """Table cells that are shown as they are: brackets in names and reasons are no markup."""
    return [Text(text) for text in texts]
