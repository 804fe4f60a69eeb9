"""Variations of integers, masks and 8-bit floats. Most take only values that were drawn: integers
may be indices, and 8 bits leave no room for values that decide a sum."""

from __future__ import annotations

from typing import Any

from .family_values import draw, pick
from .value_order import is_ordered, mix, unique_axes

# families of these tensors alone, in which others stay as drawn
SPARSE, CLUSTERED = "sparse", "clustered"
# one of so many elements is an extreme in a sparse tensor, but at least FEWEST are
LEAST_SHARE, MOST_SHARE, FEWEST = 2.0**-16, 2.0**-8, 8
RARELY_TRUE = 0.75  # share of sparse masks that are mostly false: a sum over them is small
NARROWEST_BLOCK, WIDEST_BLOCK = 8, 512  # elements whose values are similar
BLOCKS = 64  # at least so many neighbouring blocks share their values out, where there are as many


def may_be_sparse(dtype: str) -> bool:
    """Return whether tensors of this dtype, without torch's prefix, become sparse. Wider integers
    may be indices: if most were the same, calls would take another time."""
    return dtype in ("bool", "uint8", "int8", "int16") or dtype.startswith("float8")


def may_be_clustered(dtype: str) -> bool:
    """Return whether tensors of this dtype are clustered."""
    return may_be_sparse(dtype) or dtype in ("int32", "int64")


def change_mask(values: Any, family: str, generator: Any) -> Any:
    """Return a mask, changed in place or a new one."""
    if family in (SPARSE, CLUSTERED):
        return _rearrange(values, family, generator)
    if family in ("ties", "small"):
        values.fill_(family == "ties")
    elif family == "zeros":
        values.view(-1)[: max(1, values.numel() // 8)] = False
    elif family == "edges":
        values.fill_(False)
        values.view(-1)[[0, -1]] = True
    return values


def change_eight_bits(values: Any, family: str, generator: Any) -> Any:
    """Return 8-bit floats, sparse or clustered."""
    return _rearrange(values.float(), family, generator).to(values.dtype)


def change_integers(values: Any, family: str, generator: Any) -> Any:
    """Return integers of the original in another order, depending on the family with repetitions,
    unless no value occurs twice. Sorted ones are returned unchanged: they may be a table."""
    import torch

    flat = values.view(-1)
    count = flat.numel()
    if is_ordered(values):
        return values
    if unique := unique_axes(values):
        return mix(values, unique, generator)
    if family == CLUSTERED or (family == SPARSE and values.element_size() <= 2):
        return _rearrange(values, family, generator)
    order = torch.randperm(count, generator=generator, device=flat.device)
    if family == "zeros":
        order = torch.randint(count, (count,), generator=generator, device=flat.device)
    elif family == "ties":
        few = torch.stack([flat.argmin(), flat.argmax(), order[0], order[1]])
        order = few[torch.randint(4, (count,), generator=generator, device=flat.device)]
    mixed = flat[order]
    if family == "edges":
        mixed[0], mixed[-1] = flat.max(), flat.min()
    return mixed.view(values.shape)


def _rearrange(values: Any, family: str, generator: Any) -> Any:
    flat = values.reshape(-1)
    change = _make_sparse if family == SPARSE else _cluster
    return change(flat, generator).view(values.shape)


def _make_sparse(flat: Any, generator: Any) -> Any:
    """Return the value nearest zero everywhere but at a few random places, which hold an extreme:
    these decide a sum, and a candidate that reads only a sample misses most. Of a mask, either
    value may be the rare one."""
    import torch

    numbers = flat.to(torch.float32)
    usual, rare = numbers.abs().argmin(), numbers.argmax()
    if flat.dtype == torch.bool:
        if draw(generator) >= RARELY_TRUE:
            usual, rare = rare, usual
    elif bool(flat[rare] == flat[usual]):
        rare = numbers.argmin()
    share = LEAST_SHARE * (MOST_SHARE / LEAST_SHARE) ** draw(generator)
    count = min(max(1, flat.numel() // 4), max(FEWEST, int(share * flat.numel())))
    sparse = flat[usual].repeat(flat.numel())
    places = torch.randint(flat.numel(), (count,), generator=generator, device=flat.device)
    sparse[places] = flat[rare]
    return sparse


def _cluster(flat: Any, generator: Any) -> Any:
    """Return the same values in another order: each block of neighbours, of a random width, holds
    similar ones. A sample that takes some blocks and leaves out others has another average."""
    import torch

    def order(count: int) -> Any:
        return torch.randperm(count, generator=generator, device=flat.device)

    mixed = flat[order(flat.numel())]
    widest = min(WIDEST_BLOCK, max(1, flat.numel() // 4))
    narrowest = min(NARROWEST_BLOCK, widest)
    width = int(narrowest * (widest / narrowest) ** draw(generator))
    blocks = flat.numel() // width
    together = blocks // max(1, blocks // BLOCKS)
    count = blocks // together * together * width
    shared = mixed[:count].view(-1, together * width).sort(-1).values.view(-1, width)
    start = pick(width, generator)  # blocks begin anywhere
    mixed[:count] = shared[order(len(shared))].view(-1)
    return mixed.roll(start)
