"""How many bytes of a call's outputs are known before its inputs: whoever knows them can write them
while nothing is timed, and only the others in the call.

Draws are compared block by block, in the order of memory. Values that agree within the limits of
the output count as equal, since writing one of them for all would pass.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...wire import dtypes

if TYPE_CHECKING:
    import torch

# Draws whose usual values count, blocks of each output, and their bytes: what a device writes
# at once (a sector). Only whole blocks count, since writing a part of one takes as long; on a CPU a
# block of which most is known counts by that share: what is known need not be read and copied.
DRAWS, BLOCKS, BLOCK_BYTES = 24, 1 << 12, 32
# Draws that are compared in pairs, in fewer blocks: there may be many kinds of outputs. Of so many
# draws, this many may be alike by chance.
PAIRED_DRAWS, PAIRED_BLOCKS = 192, 1 << 7
CHANCE_SHARE, MOST_CHANCE = 1 / 8, 3
# Fewer do not tell which values are frequent: what two of them have in common is usual then.
FEW_DRAWS = 5
MOST_OF_A_BLOCK = 3 / 4


@dataclass(frozen=True)
class Draws:
    """Outputs of several draws. outputs: of each draw. leaves: their layouts; of strides that are
    the reference's, and of contiguous ones, those count in which more is known. limits: by output,
    the relative error within which values count as equal. parts: whether most of a block counts,
    by its share."""

    outputs: Sequence[Sequence[torch.Tensor]]
    leaves: Sequence[dict[str, Any]]
    limits: Sequence[float]
    parts: bool = False

    def usual_bytes(self) -> int:
        """Return how many bytes of one call's outputs have the values that are usual: the median
        over the draws, of large outputs by a sample."""
        if len(self.outputs) < FEW_DRAWS:
            return self.alike_bytes()
        shares = self._shares(DRAWS, 1, _usual_shares)
        return self._whole if shares is None else int(shares.median())

    def alike_bytes(self) -> int:
        """Return how many are as in the draw that is most like it: the median over the draws."""
        likest = self._likest()
        return self._whole if likest is None else int(likest.median())

    def twin_bytes(self) -> int:
        """Return the same in a draw that has such a twin: of many kinds, few of the draws are of a
        kind that came before, and whoever has outputs ready for each needs no twin."""
        likest = self._likest()
        if likest is None:
            return self._whole
        by_chance = min(MOST_CHANCE, int(CHANCE_SHARE * len(likest)))
        return int(likest.sort(descending=True).values[by_chance])

    def _likest(self) -> torch.Tensor | None:
        """Return for each draw the bytes of the draw that is most like it, None for one draw."""
        shares = self._shares(PAIRED_DRAWS, 2, _paired_shares)
        return None if shares is None else shares.fill_diagonal_(0).amax(1)

    @property
    def _whole(self) -> int:
        """The bytes of one draw: nobody knows what another one has."""
        return sum(each.nbytes for each in self.outputs[0])

    def _shares(
        self,
        most: int,
        axes: int,
        compare: Callable[[Sequence[torch.Tensor], _Alike], torch.Tensor],
    ) -> torch.Tensor | None:
        """Add up what `compare` finds in each output of so many draws, in bytes; None for one
        draw. axes: of what `compare` returns."""
        import torch

        draws = random.sample(list(self.outputs), min(most, len(self.outputs)))
        if len(draws) < 2:
            return None
        found = [
            torch.stack(
                [
                    compare(
                        [each[number].permute(order) for each in draws], _Alike(limit, self.parts)
                    )
                    for order in _orders(leaf, draws[0][number].dim())
                ]
            ).amax(0)
            * draws[0][number].nbytes
            for number, (leaf, limit) in enumerate(zip(self.leaves, self.limits, strict=True))
            if draws[0][number].numel()
        ]
        size = torch.Size((len(draws),) * axes)
        return torch.stack([torch.zeros(size, dtype=torch.float64), *found]).sum(0)


def _orders(leaf: dict[str, Any], axes: int) -> list[list[int]]:
    """Return the orders of the axes in which an output may lie in memory."""
    strides = leaf.get("as") or leaf.get("stride") or ()
    plain = list(range(axes))
    if len(strides) != axes:
        return [plain]
    own = sorted(plain, key=lambda axis: -strides[axis])
    return [plain] if own == plain else [plain, own]


@dataclass(frozen=True)
class _Alike:
    """Compares blocks. limit, parts: see Draws."""

    limit: float
    parts: bool

    def shares(self, table: torch.Tensor, blocks: torch.Tensor) -> torch.Tensor:
        """Return for each draw the share of its blocks that is as these."""
        import torch

        equal = table == blocks
        if self.limit:
            equal |= (table - blocks).abs() <= self.limit * blocks.abs()
        each = equal.double().mean(2)
        least = MOST_OF_A_BLOCK if self.parts else 1.0
        return torch.where(each >= least, each, 0).mean(1)


def _usual_shares(draws: Sequence[torch.Tensor], alike: _Alike) -> torch.Tensor:
    """Return by draw the share of blocks with usual values."""
    import torch

    table = _blocks(draws, BLOCKS, alike.limit)
    usual = [_most_frequent(table), *([_middle(table)] if alike.limit else [])]
    return torch.stack([alike.shares(table, each) for each in usual]).amax(0)


def _paired_shares(draws: Sequence[torch.Tensor], alike: _Alike) -> torch.Tensor:
    """Return by pair of draws the share of blocks that are alike."""
    import torch

    table = _blocks(draws, PAIRED_BLOCKS, alike.limit)
    return torch.stack([alike.shares(table, blocks) for blocks in table])


def _blocks(draws: Sequence[torch.Tensor], count: int, limit: float) -> torch.Tensor:
    """Return so many blocks of each draw, at the same random places."""
    import torch

    elements = draws[0].numel()
    length = min(elements, max(1, BLOCK_BYTES // draws[0].element_size()))
    sample = torch.randint(elements // length, (count,)).to(draws[0].device)
    table = torch.stack(
        [
            _comparable(each)
            .flatten()[: elements // length * length]
            .view(-1, length)[sample]
            .cpu()
            for each in draws
        ]
    )
    if not limit:
        return table
    return table.to(torch.complex64 if table.is_complex() else torch.float32)


def _comparable(tensor: torch.Tensor) -> torch.Tensor:
    numbers: torch.Tensor = dtypes.comparable(tensor.contiguous())
    return numbers


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
