"""How many bytes of a call's outputs are known before its inputs: whoever knows them can write them
while nothing is timed, and only the others in the call.

Draws are compared block by block, in the order of memory. Values that agree within the limits of
the output count as equal, since writing one of them for all would pass.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ...wire import dtypes

if TYPE_CHECKING:
    import torch

# Draws whose usual values count, blocks of each output, and their bytes: what a device writes
# at once (a sector). Only whole blocks count, since writing a part of one takes as long.
DRAWS, BLOCKS, BLOCK_BYTES = 24, 1 << 12, 32
# Draws that are compared in pairs, in fewer blocks: there may be many kinds of outputs.
PAIRED_DRAWS, PAIRED_BLOCKS = 192, 1 << 8
FEW_DRAWS = 5  # fewer do not tell which values are frequent


def known_bytes(
    draws: Sequence[Sequence[torch.Tensor]],
    leaves: Sequence[dict[str, Any]],
    limits: Sequence[float],
) -> tuple[int, int]:
    """Return how many bytes of one call's outputs have the values that are usual, and how many are
    as in the draw that is most like it: medians over the draws, of large outputs by a sample.

    draws: of the outputs. leaves: their layouts; of strides that are the reference's, and of
    contiguous ones, those count in which more is known. limits: by output, the relative error
    within which values count as equal.
    """
    import torch

    draws = random.sample(list(draws), min(PAIRED_DRAWS, len(draws)))
    if len(draws) < 2:
        nbytes = sum(each.nbytes for each in draws[0])
        return nbytes, nbytes
    usual = torch.zeros(min(DRAWS, len(draws)), dtype=torch.float64)
    pairs = torch.zeros(len(draws), len(draws), dtype=torch.float64)
    for number, (leaf, limit) in enumerate(zip(leaves, limits, strict=True)):
        first = draws[0][number]
        if not first.numel():
            continue
        found = [
            _shares([each[number].permute(order) for each in draws], limit)
            for order in _orders(leaf, first.dim())
        ]
        usual += torch.stack([share for share, _ in found]).amax(0) * first.nbytes
        pairs += torch.stack([shares for _, shares in found]).amax(0) * first.nbytes
    return int(usual.median()), int(pairs.fill_diagonal_(0).amax(1).median())


def _orders(leaf: dict[str, Any], axes: int) -> list[list[int]]:
    """Return the orders of the axes in which an output may lie in memory."""
    strides = leaf.get("as") or leaf.get("stride") or ()
    plain = list(range(axes))
    if len(strides) != axes:
        return [plain]
    own = sorted(plain, key=lambda axis: -strides[axis])
    return [plain] if own == plain else [plain, own]


def _shares(draws: Sequence[torch.Tensor], limit: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the share of blocks with usual values, by draw, and that of blocks that are alike, by
    pair of draws."""
    import torch

    table = _blocks(draws[:DRAWS], BLOCKS)
    # of a few draws, every value is as frequent as another: what is often there is 0
    usual = [torch.zeros_like(table[0])]
    if len(table) >= FEW_DRAWS:
        usual = [_most_frequent(table), *([_middle(table)] if limit else [])]
    shares = torch.stack([_alike(table, each, limit).double().mean(1) for each in usual]).amax(0)
    table = _blocks(draws, PAIRED_BLOCKS)
    pairs = torch.stack([_alike(table, blocks, limit).double().mean(1) for blocks in table])
    return shares, pairs


def _blocks(draws: Sequence[torch.Tensor], count: int) -> torch.Tensor:
    """Return so many blocks of each draw, at the same random places."""
    import torch

    elements = draws[0].numel()
    length = min(elements, max(1, BLOCK_BYTES // draws[0].element_size()))
    sample = torch.randint(elements // length, (count,)).to(draws[0].device)
    return torch.stack(
        [
            _comparable(each)
            .flatten()[: elements // length * length]
            .view(-1, length)[sample]
            .cpu()
            for each in draws
        ]
    )


def _alike(table: torch.Tensor, blocks: torch.Tensor, limit: float) -> torch.Tensor:
    """Return for each draw which blocks are as these."""
    if not limit:
        return (table == blocks).all(2)
    import torch

    wide = torch.complex128 if table.is_complex() else torch.float64
    away = (table.to(wide) - blocks.to(wide)).abs()
    return (table == blocks).all(2) | (away <= limit * blocks.to(wide).abs()).all(2)


def _comparable(tensor: torch.Tensor) -> torch.Tensor:
    import torch

    return (
        tensor.contiguous().view(torch.uint8)
        if dtypes.is_float8(tensor)
        else dtypes.comparable(tensor)
    )


def _most_frequent(table: torch.Tensor) -> torch.Tensor:
    """Return the most frequent value of each element over the first axis."""
    import torch

    if table.is_complex():
        return torch.view_as_complex(torch.view_as_real(table).mode(0).values)
    return (table.byte() if table.dtype == torch.bool else table).mode(0).values


def _middle(table: torch.Tensor) -> torch.Tensor:
    """Return the median of each element over the first axis."""
    import torch

    if table.is_complex():
        return torch.view_as_complex(torch.view_as_real(table).median(0).values)
    return table.median(0).values
