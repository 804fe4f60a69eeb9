"""The change of one floating tensor's values by each input family, in place or as new values."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

SHIFT = 20.0  # standard deviations
# The most elements that are raised, and their factor on the largest value. By the smaller factor
# one of so many is, if that is more: fewer would not decide a sum.
FEW, MANY, FACTORS = 64, 2048, {"uneven": 1000.0, "raised": 8.0}
# the width of a moved slice or block, as a share of the range of all values; and the share of those
# that are moved
SLICE_WIDTHS, BLOCK_WIDTHS = (0.2, 0.8), (0.02, 0.4)
MOVED_SLICES, MOVED_BLOCKS = 0.7, 0.9
SHORTEST_BLOCK, LONGEST_BLOCK = 8, 4096  # elements of a block
BLOCKS_SHARE = 3 / 4  # how often blocks are moved besides slices
# how often it is what lies at the same place of each block instead, of 8 to 256 elements: a stride
# that is a power of two meets few of these places
PLACES_SHARE, DOUBLINGS = 1 / 3, 6
# width of the values at one end, as a share of the range of all values
NARROWEST_END, WIDEST_END = 5e-4, 1e-2
# the share of a row that is gathered, and in how many elements at most
LEAST_GATHERED, MOST_GATHERED, MOST_PILES = 0.5, 0.95, 4


def draw(generator: Any) -> float:
    """Draw a number from 0 to 1."""
    import torch

    return float(torch.rand(1, generator=generator, device=generator.device))


def pick(count: int, generator: Any) -> int:
    """Draw an index below `count`."""
    return min(int(draw(generator) * count), count - 1)


def _scale(values: Any, generator: Any) -> Any:
    return values.mul_(10.0 ** (0.5 + 1.5 * draw(generator)))


def _small(values: Any, generator: Any) -> Any:
    return values.mul_(10.0 ** -(1 + 1.5 * draw(generator)))


def _shift(values: Any, generator: Any) -> Any:
    sign = 1 if draw(generator) < 0.5 else -1
    return values.add_(sign * SHIFT * float(values.float().std(correction=0)))


def _negative(values: Any, generator: Any) -> Any:
    return values.abs().neg() if bool((values < 0).any()) else values


def _spike(values: Any, generator: Any) -> Any:
    flat, largest = values.view(-1), float(values.float().abs().max()) or 1
    flat[pick(values.numel(), generator)] += 100 * largest
    # a different size, so that the two do not cancel in a sum
    flat[pick(values.numel(), generator)] -= 70 * largest
    return values


def _uneven(values: Any, generator: Any, factor: float = FACTORS["uneven"]) -> Any:
    """Raise a few random elements. A candidate that reads only a sample, or the start of a row,
    misses some, and its error exceeds what 16 bits allow. All get one sign: where large values
    cancel, honest rounding errors are large compared with the sum (seen in 5 of 6,000 draws of sums
    over rows of 64)."""
    raised = raised_value(values, factor)
    most = values.numel() // MANY if factor == FACTORS["raised"] else FEW
    return _put(values, generator, raised if bool((values > 0).any()) else -raised, most)


def raised_value(values: Any, factor: float) -> float:
    """Return a multiple of the largest magnitude that sums can hold."""
    import torch

    largest = float(values.float().abs().max()) or 1.0
    return float(min(factor * largest, 0.25 * torch.finfo(values.dtype).max))


def _put(values: Any, generator: Any, value: float, most: int) -> Any:
    """Put a value at a few random places, at FEW or `most` of them."""
    import torch

    flat = values.view(-1)
    count = max(1, min(FEW, flat.numel() // FEW), min(most, flat.numel() // FEW))
    # fewer in half of the draws, and one in a quarter: a look at some elements may not find these
    count = int(count ** min(1.0, max(0.0, 4 * draw(generator) - 1)))
    places = torch.randint(flat.numel(), (count,), generator=generator, device=flat.device)
    flat[places] = value
    return values


def _ends(values: Any, generator: Any) -> Any:
    """Move all values close to one end of their range, and a few random ones to the other end.
    Where a function is defined only there, these may decide a sum of its results."""
    lowest, highest = float(values.min()), float(values.max())
    near, far = (lowest, highest) if draw(generator) < 0.5 else (highest, lowest)
    width = NARROWEST_END * (WIDEST_END / NARROWEST_END) ** draw(generator)
    moved = values.mul_(width).add_(near * (1 - width)).clamp_(lowest, highest)
    return _put(moved, generator, far, values.numel() // MANY)


def _oppose(values: Any, generator: Any, side: int) -> Any:
    """Shift all values to one side of zero, and put a few random ones on the other. Large values
    hardly change a sum of results of a bounded function (a sigmoid), but beside results that vanish
    a few others decide it."""
    import torch

    wide = values if values.dtype == torch.float64 else values.float()
    most = 0.25 * torch.finfo(values.dtype).max  # which sums can hold
    shift = side * min(SHIFT * float(wide.std(correction=0)), most)
    shifted = values.add_(shift).clamp_(-most, most)
    return _put(shifted, generator, -shift, values.numel() // MANY)


def _gather(values: Any, generator: Any) -> Any:
    """Move a part of each row to a few of its elements. Where a task accepts only rows of a certain
    sum, these may decide a sum of results."""
    import torch

    if not values.dim():
        return values
    dtype = torch.float64 if values.dtype == torch.float64 else torch.float32
    wide = values.to(dtype)
    share = LEAST_GATHERED + (MOST_GATHERED - LEAST_GATHERED) * draw(generator)
    piles = pick(MOST_PILES, generator) + 1
    sums = wide.sum(-1, keepdim=True) * (share / piles)
    shape = (*values.shape[:-1], piles)
    places = torch.randint(values.shape[-1], shape, generator=generator, device=values.device)
    gathered = wide.mul_(1 - share).scatter_add_(-1, places, sums.expand(shape))
    return gathered.to(values.dtype)


def _raise(values: Any, generator: Any) -> Any:
    return _uneven(values, generator, FACTORS["raised"])


def _move_slices(values: Any, generator: Any) -> Any:
    """Change averages and spreads along some axes, so that a candidate cannot assume those of plain
    inputs. Slices are narrowed and shifted within the range of all values, since the task may
    accept no others."""
    axes = [axis for axis, extent in enumerate(values.shape) if extent > 1]
    moved_axes = [axis for axis in axes if draw(generator) < 0.5] or axes[:1]
    if axes and len(moved_axes) == len(axes):  # otherwise a slice would be a single value
        moved_axes.pop(pick(len(axes), generator))
    shape = [extent if axis in moved_axes else 1 for axis, extent in enumerate(values.shape)]
    _move(values, shape, SLICE_WIDTHS, MOVED_SLICES, generator)
    return values


def move_blocks(values: Any, generator: Any) -> Any:
    """Often narrow and shift blocks of neighbours as well, or all elements at the same place of
    each such block, so that a candidate cannot assume the averages of a regular sample. Not of
    parameters: it would even out the averages of slices."""
    longest = min(LONGEST_BLOCK, values.numel() // 4)
    if longest <= SHORTEST_BLOCK or draw(generator) >= BLOCKS_SHARE:
        return values
    by_place = draw(generator) < PLACES_SHARE
    length = int(SHORTEST_BLOCK * (longest / SHORTEST_BLOCK) ** draw(generator))
    if by_place:
        length = min(SHORTEST_BLOCK * 2 ** pick(DOUBLINGS, generator), longest)
    flat = values.view(-1)[pick(length, generator) :]
    blocks = flat[: len(flat) // length * length].view(-1, length)
    shape = [1, length] if by_place else [len(blocks), 1]
    _move(blocks, shape, BLOCK_WIDTHS, MOVED_BLOCKS, generator)
    return values


def _move(
    values: Any, shape: list[int], widths: tuple[float, float], share: float, generator: Any
) -> None:
    """Narrow a share of the slices to widths in this range and shift them within that of all
    values. shape: 1 for each axis along which all elements belong to one slice."""
    import torch

    dtype = torch.float64 if values.dtype == torch.float64 else torch.float32

    def uniform() -> Any:
        return torch.rand(shape, generator=generator, device=values.device, dtype=dtype)

    moves = uniform() < share
    moves.view(-1)[pick(moves.numel(), generator)] = True
    lowest, highest = float(values.min()), float(values.max())
    narrowest, widest = widths
    width = torch.where(moves, narrowest + (widest - narrowest) * uniform(), 1.0)
    start = lowest * (1 - width) + uniform() * (1 - width) * (highest - lowest)
    values.mul_(width.to(values.dtype)).add_(start.to(values.dtype)).clamp_(lowest, highest)


def _edges(values: Any, generator: Any) -> Any:
    for axis in range(values.dim()):
        for index in {0, values.shape[axis] - 1}:
            values.select(axis, index).mul_(10 if axis == values.dim() - 1 else 3)
    return values


def _zeros(values: Any, generator: Any) -> Any:
    flat = values.view(-1)
    start = pick(flat.numel(), generator)
    flat[start : start + max(1, flat.numel() // 8)] = 0
    if values.dim() > 1:
        values[-1] = 0
    return values


def _ties(values: Any, generator: Any) -> Any:
    import torch

    flat = values.view(-1)
    random = flat[torch.randint(flat.numel(), (2,), generator=generator, device=flat.device)]
    # the ends of the range are among the levels: if all happened to lie close together, differences
    # would be as small as honest rounding errors
    levels = torch.cat([flat[flat.argmin()][None], flat[flat.argmax()][None], random])
    return levels[torch.randint(4, (flat.numel(),), generator=generator, device=flat.device)].view(
        values.shape
    )


def _exact(values: Any, generator: Any) -> Any:
    import torch

    lowest = -1 if bool((values < 0).any()) else 0
    return torch.randint(lowest, 2, values.shape, generator=generator, device=values.device).to(
        values.dtype
    )


def _special(values: Any, generator: Any) -> Any:
    import torch

    flat, info = values.view(-1), torch.finfo(values.dtype)
    for value in (float("nan"), float("inf"), -float("inf"), -0.0, info.tiny / 4, info.max):
        flat[pick(flat.numel(), generator)] = value
    return values


FLOATING: dict[str, Callable[[Any, Any], Any]] = {
    "scaled": _scale, "small": _small, "shifted": _shift, "negative": _negative, "spike": _spike,
    "uneven": _uneven, "raised": _raise, "moved": _move_slices, "ends": _ends,
    "above": partial(_oppose, side=1), "below": partial(_oppose, side=-1),
    "gathered": _gather, "edges": _edges, "zeros": _zeros, "ties": _ties,
    "exact": _exact, "special": _special,
}  # fmt: skip
