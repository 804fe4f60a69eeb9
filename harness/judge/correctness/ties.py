"""Expected values where several are right: the one that the candidate gives is expected. Either
rounding to whole numbers decides between two neighbours, or places of equal values are asked for.

The reference determines which elements have two right neighbours (`harness/workers/rounding.py`):
it is run with the rounded values moved down and up, and these elements are where its results
differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...wire import dtypes
from .distance import blocks

if TYPE_CHECKING:
    import torch

_COUNTS = ("uint8", "int8", "int16", "int32", "int64")


def settle(
    candidate: torch.Tensor,
    expected: torch.Tensor,
    alternatives: Sequence[torch.Tensor],
    *,
    between: bool = False,
) -> torch.Tensor:
    """Return `expected`, with an alternative value where that is nearer to the candidate's.
    alternatives: other right outputs, in the output's dtype. between: whether whole numbers between
    right ones are right, see `workers.counted_outputs`. All have one shape; complex outputs are
    returned unchanged."""
    import torch

    dtype = expected.dtype
    between = between and dtypes.name_of(dtype) in _COUNTS
    expected, candidate = dtypes.as_integers(expected), dtypes.as_integers(candidate)
    result, flat = expected, expected
    for alternative in map(dtypes.as_integers, alternatives):
        if alternative.is_complex() or not alternative.numel():
            break
        places = _differences(alternative, expected)
        if not places.numel():
            continue
        if result is expected:
            result = expected.clone(memory_format=torch.contiguous_format)
            flat = result.view(-1)
        actual, option = (t.to(result.device).reshape(-1)[places] for t in (candidate, alternative))
        current = flat[places]
        if actual.is_floating_point():
            nearer = (actual.double() - option.double()).abs() < (
                actual.double() - current.double()
            ).abs()
        elif between:
            nearer = (actual >= torch.minimum(current, option)) & (
                actual <= torch.maximum(current, option)
            )
            option = actual
        else:
            nearer = actual == option
        flat[places] = torch.where(nearer, option.to(current.dtype), current)
    return result if result.dtype == dtype else result.view(dtype)


def settle_order(
    candidate: torch.Tensor, expected: torch.Tensor, source: torch.Tensor, axis: int
) -> torch.Tensor:
    """Return `expected` with the candidate's place where `source` has the same value there and the
    place occurs once among those along the axis. candidate, expected: places along this axis of
    the source, with the axis or without it (one place each)."""
    import torch

    source = dtypes.comparable(source.to(expected.device))
    given, right = candidate.to(expected.device).long(), expected.long()
    if given.dim() < source.dim():
        given, right = given.unsqueeze(axis), right.unsqueeze(axis)
    inside = (given >= 0) & (given < source.shape[axis])
    usable = given.clamp(0, max(0, source.shape[axis] - 1))
    same = source.gather(axis, usable) == source.gather(axis, right)
    ordered, order = given.sort(axis)
    count = given.shape[axis]
    repeated = torch.zeros_like(inside)
    if count > 1:
        equal = ordered.narrow(axis, 1, count - 1) == ordered.narrow(axis, 0, count - 1)
        repeated.narrow(axis, 1, count - 1).logical_or_(equal)
        repeated.narrow(axis, 0, count - 1).logical_or_(equal)
    once = ~torch.zeros_like(repeated).scatter(axis, order, repeated)
    settled = torch.where(inside & same & once, given, right)
    return settled.reshape(expected.shape).to(expected.dtype)


def _differences(alternative: torch.Tensor, expected: torch.Tensor) -> torch.Tensor:
    """Return the flat places where two tensors differ in the dtype of the first; NaN equals NaN."""
    import torch

    flat_places, start = [], 0
    for part, reference in blocks(alternative.to(expected.device), expected):
        first, second = part, reference.to(part.dtype)
        # torch cannot compare 8-bit floats, and NaN never equals itself
        if first.is_floating_point():
            first, second = first.double(), second.double()
        places = (
            ((first != second) & ~((first != first) & (second != second))).nonzero().reshape(-1)
        )
        flat_places.append(places + start)
        start += part.numel()
    return torch.cat(flat_places)
