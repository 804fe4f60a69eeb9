"""What the values of a tensor keep in every family: tables stay sorted, indices that occur once
stay so."""

from __future__ import annotations

import math
from typing import Any

from ..wire import dtypes

# values that are all different by chance with a probability of at most exp(-MEANT) are so on
# purpose
MEANT = 8.0
FIRST = 4096  # values that are examined before all


def sorted_axes(values: Any) -> list[tuple[int, bool]]:
    """Return the axes along which every slice is sorted, and whether it descends. A tensor whose
    values are all equal has none."""
    return [
        (axis, descending)
        for axis, extent in enumerate(values.shape)
        if extent > 1 and values.numel()
        for descending in (False, True)
        if _is_sorted(values, axis, descending)
    ]


def is_ordered(values: Any) -> bool:
    """Return whether integers are sorted, all together or along some axis. Of a mask, that says
    nothing along an axis."""
    import torch

    flat = values.reshape(-1)
    return (
        flat.numel() < 2
        or bool((flat[1:] >= flat[:-1]).all())
        or (values.dtype != torch.bool and bool(sorted_axes(values)))
    )


def sort_like(values: Any, axes: list[tuple[int, bool]]) -> Any:
    """Return the values sorted along these axes. Sorting along another axis leaves slices that are
    sorted in order. 8-bit floats cannot be sorted as such."""
    for axis, descending in axes:
        wide = values.float() if dtypes.is_float8(values) else values
        values = wide.sort(axis, descending=descending).values.to(values.dtype)
    return values


def unique_axes(values: Any) -> list[int]:
    """Return the axes along which no slice of integers holds a value twice, unless that may be
    chance. If no value at all occurs twice, these are all axes."""
    flat = values.reshape(-1)
    span = int(flat.max()) - int(flat.min()) + 1
    if flat.numel() <= span and _differ(flat[:FIRST]) and _differ(flat):
        return list(range(values.dim()))
    axes = []
    for axis, extent in enumerate(values.shape):
        coincidences = flat.numel() * (extent - 1) / (2 * span)
        deliberate = 1 < extent <= span and coincidences >= MEANT
        if deliberate and _differ(_first_line(values, axis).reshape(-1)):
            axes += [axis] * _differ(values.movedim(axis, -1))
    return axes


def mix(values: Any, unique: list[int], generator: Any) -> Any:
    """Return integers in another order. If values are unique along some axes, the slices along each
    axis change places, so that they stay unique."""
    import torch

    def order(count: int) -> Any:
        return torch.randperm(count, generator=generator, device=values.device)

    if not unique or math.prod(values.shape) == max(values.shape):
        return values.reshape(-1)[order(values.numel())].view(values.shape)
    for axis, extent in enumerate(values.shape):
        values = values.index_select(axis, order(extent))
    return values


def _is_sorted(values: Any, axis: int, descending: bool) -> bool:
    def in_order(line: Any) -> bool:
        count = line.shape[axis] - 1
        first, then = line.narrow(axis, 0, count), line.narrow(axis, 1, count)
        return bool((first >= then if descending else first <= then).all())

    values = values.float() if dtypes.is_float8(values) else values
    return (
        in_order(_first_line(values, axis))
        and in_order(values)
        and bool((values != values.reshape(-1)[0]).any())
    )


def _first_line(values: Any, axis: int) -> Any:
    """Return the first slice along an axis, as a tensor of as many axes."""
    for other in range(values.dim()):
        values = values if other == axis else values.narrow(other, 0, 1)
    return values


def _differ(values: Any) -> bool:
    """Return whether the values along the last axis differ from one another."""
    ordered = values.sort(-1).values
    return bool((ordered[..., 1:] != ordered[..., :-1]).all())
