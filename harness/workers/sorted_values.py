"""Variations of floating values that are sorted, and stay so. A few large values would always come
last, and what lies between is smooth, so that a sample gives the sum over all: these have steps at
random places instead."""

from __future__ import annotations

from typing import Any

from .family_values import FACTORS, FLOATING, draw, move_blocks, pick, raised_value
from .value_order import sort_like

FEWEST_LEVELS, MOST_LEVELS = 2, 64


def vary(values: Any, family: str, axes: list[tuple[int, bool]], generator: Any) -> Any:
    """Return the values of a family, sorted along the same axes. axes: see sorted_axes."""
    if family in FACTORS and axes:
        return _raise_end(values, FACTORS[family], axes, generator)
    if family == "moved" and axes:
        return _take_levels(values, axes, generator)
    changed = FLOATING[family](values, generator)
    return sort_like(move_blocks(changed, generator) if family == "moved" else changed, axes)


def _raise_end(values: Any, factor: float, axes: list[tuple[int, bool]], generator: Any) -> Any:
    """Raise all values beyond a random place at the upper end of one of the axes: half of them,
    one, or a number between, of any magnitude."""
    axis, descending = axes[pick(len(axes), generator)]
    extent = values.shape[axis]
    count = max(1, int((extent / 2) ** draw(generator)))
    end = values.narrow(axis, 0 if descending else extent - count, count)
    end.add_(raised_value(values, factor))
    return values


def _take_levels(values: Any, axes: list[tuple[int, bool]], generator: Any) -> Any:
    """Return few different values within the range of all, the same along all other axes. Each
    begins at a random place, in half of the draws one of any magnitude, counted from one end: a few
    values then decide the sum."""
    import torch

    axis, descending = axes[pick(len(axes), generator)]
    extent, device = values.shape[axis], values.device
    most = max(FEWEST_LEVELS, min(MOST_LEVELS, extent // 4))
    count = int(FEWEST_LEVELS * (most / FEWEST_LEVELS) ** draw(generator))
    starts = torch.rand(count - 1, generator=generator, device=device)
    starts = extent**starts if draw(generator) < 0.5 else extent * starts
    places = torch.arange(extent, device=device)
    places = places.flip(0) if draw(generator) < 0.5 else places
    level = torch.searchsorted(starts.sort().values, places.to(starts.dtype), right=True)
    heights = torch.rand(count, generator=generator, device=device)[level].sort().values
    heights = heights.flip(0) if descending else heights
    shape = [extent if number == axis else 1 for number in range(values.dim())]
    lowest, highest = float(values.min()), float(values.max())
    heights = lowest + (highest - lowest) * heights.double()
    heights = heights.to(values.dtype).clamp(lowest, highest)
    return heights.view(shape).expand(values.shape).clone()
