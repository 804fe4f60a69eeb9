"""Copies on a device: many in one launch, and what was taken with where it lay."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..correctness.distance import same_bits

if TYPE_CHECKING:
    import torch

Copies = list[tuple[list["torch.Tensor"], list["torch.Tensor"]]]  # to, from, together


@dataclass(frozen=True)
class Lying:
    """Where a worker has an output, by its number in a burst: bytes of its memory, and strides in
    elements unless it is contiguous."""

    number: int
    there: torch.Tensor
    strides: list[int] | None


@dataclass(frozen=True)
class Taken:
    """An output as the judge took it, and where the worker has it."""

    there: torch.Tensor
    value: torch.Tensor

    def is_kept(self) -> bool:
        """Whether there lies what lay there, bit by bit."""
        return same_bits(self.there, self.value)


def grouped(copies: Sequence[tuple[torch.Tensor, torch.Tensor]]) -> Copies:
    """What can be copied together: many small copies would be as many launches."""
    import torch

    together: dict[torch.dtype, tuple[list[torch.Tensor], list[torch.Tensor]]] = {}
    for place, source in copies:
        whole = len(source) | source.data_ptr() | place.data_ptr()
        wide = next(
            (dtype for width, dtype in ((8, torch.int64), (4, torch.int32)) if whole % width == 0),
            torch.uint8,
        )
        places, sources = together.setdefault(wide, ([], []))
        places.append(place.view(wide))
        sources.append(source.view(wide))
    return list(together.values())


def copy(copies: Copies) -> None:
    """On the current stream."""
    import torch

    for places, sources in copies:
        if len(places) == 1:
            places[0].copy_(sources[0])
        else:
            torch._foreach_copy_(places, sources)
