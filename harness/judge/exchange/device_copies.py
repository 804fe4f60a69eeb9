"""Copies on a device: where a worker says that its outputs lie, many copies in one launch, and what
was copied with where it lay."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...workers import call_form
from ..correctness.distance import same_bits
from ..errors import Interfered

if TYPE_CHECKING:
    import torch

MOST_STEP = 1 << 40  # elements
Copies = list[tuple[list["torch.Tensor"], list["torch.Tensor"]]]  # to, from, together


@dataclass(frozen=True)
class DevicePlace:
    """Where a worker has an output, by its number in a burst: bytes of its memory, and strides in
    elements unless it is contiguous."""

    number: int
    there: torch.Tensor
    strides: list[int] | None


@dataclass(frozen=True)
class DeviceCopy:
    """An output as the judge took it, and where the worker has it."""

    there: torch.Tensor
    value: torch.Tensor

    def is_intact(self) -> bool:
        """Whether there lies what lay there, bit by bit."""
        return same_bits(self.there, self.value)


def group_copies(copies: Sequence[tuple[torch.Tensor, torch.Tensor]]) -> Copies:
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


def check_place(entry: Any, leaf: dict[str, Any]) -> tuple[int, list[int] | None]:
    """Address and strides of an output as a worker says them. Raises Interfered where that cannot
    be."""
    import torch

    if (
        not isinstance(entry, list)
        or len(entry) != 2
        or not isinstance(entry[0], int)
        or entry[0] < 0
    ):
        raise Interfered("it does not say where an output lies")
    address, strides = entry
    if not leaf["nbytes"]:
        return address, None
    dtype = getattr(torch, leaf["dtype"])
    if address % dtype.itemsize:
        raise Interfered("an output lies at an address that its dtype does not have")
    if strides is None:
        return address, None
    if not isinstance(strides, list) or not all(
        isinstance(step, int) and 0 <= step < MOST_STEP for step in strides
    ):
        raise Interfered("an output's strides cannot be")
    if len(strides) != len(leaf["shape"]):
        raise Interfered("an output has strides of another dimension")
    if call_form.spread_bytes(leaf["shape"], strides, dtype.itemsize) != leaf["nbytes"]:
        raise Interfered("an output has gaps, or elements that are several")
    return address, strides
