"""Copies on a device: the places of outputs as a worker reports them, many copies in one launch,
and copied outputs with their places."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...wire.device_memory import STEP
from ...workers import call_form
from ..correctness.distance import same_bits
from ..errors import Interfered
from .output_changes import SLIGHT_SHARE
from .worker_outputs import are_the_references

if TYPE_CHECKING:
    import torch

MOST_STEP = 1 << 40  # the largest stride in elements
MARK = 8  # bytes of a mark in memory
Copies = list[tuple[list["torch.Tensor"], list["torch.Tensor"]]]  # (targets, sources) per launch


@dataclass(frozen=True)
class DevicePlace:
    """The place of an output in a worker. number: in the burst. address: in the worker. there:
    bytes of the worker's memory, without gaps. strides: in elements, None if contiguous. item: the
    bytes of an element."""

    number: int
    address: int
    there: torch.Tensor
    strides: list[int] | None
    item: int
    is_bool: bool


@dataclass(frozen=True)
class DeviceCopy:
    """The judge's copy of an output (value), and its place in the worker (there)."""

    there: torch.Tensor
    value: torch.Tensor

    def is_intact(self) -> bool:
        """Return whether the worker's memory is unchanged, bit by bit."""
        return same_bits(self.there, self.value)


def group_copies(copies: Sequence[tuple[torch.Tensor, torch.Tensor]]) -> Copies:
    """Group copies that can be done together, since each separate copy needs a launch."""
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
    """Copy on the current stream."""
    import torch

    for places, sources in copies:
        if len(places) == 1:
            places[0].copy_(sources[0])
        else:
            torch._foreach_copy_(places, sources)


def share_memory(places: Sequence[DevicePlace]) -> bool:
    """Return whether outputs that lie at different addresses are the same memory. A process may map
    one allocation at several addresses, but where it maps them, offsets in a step of the driver's
    granularity stay the same: so what lies at one offset of all outputs, that of a random byte, is
    marked in each step, and written again as it was. While the worker is stopped."""
    import torch

    if not places:
        return False
    chosen = random.choice(places)
    offset = (chosen.address + random.randrange(len(chosen.there))) // MARK * MARK
    marked: dict[int, torch.Tensor] = {}  # by address, since one tensor may be several outputs
    for place in places:
        start = (offset - place.address) % STEP
        for first in range(start, len(place.there) - MARK + 1, STEP):
            marked[place.address + first] = place.there[first : first + MARK]
    if len(marked) < 2:
        return False
    targets = list(marked.values())
    before = [each.clone() for each in targets]
    marks = torch.randint(256, (len(targets), MARK), dtype=torch.uint8, device=targets[0].device)
    torch._foreach_copy_(targets, list(marks.unbind()))
    same = not torch.equal(torch.stack(targets), marks)
    torch._foreach_copy_(targets, before)
    return same


def change(places: Sequence[DevicePlace]) -> None:
    """Overwrite outputs, as any caller may, while the worker is stopped: with random bytes, but in
    half of the cases one of them in one element only."""
    slight = random.choice(places) if places and random.random() < SLIGHT_SHARE else None
    for place in places:
        there = place.there
        if place is slight:
            start = random.randrange(len(there) // place.item) * place.item
            there = there[start : start + place.item]
        there.random_(0, 2 if place.is_bool else 256)


def check_place(entry: Any, leaf: dict[str, Any]) -> tuple[int, list[int] | None]:
    """Return address and strides of an output as a worker reports them. Raises Interfered if they
    are impossible."""
    import torch

    if (
        not isinstance(entry, list)
        or len(entry) != 2
        or not isinstance(entry[0], int)
        or entry[0] < 0
    ):
        raise Interfered("it does not report where an output lies")
    address, strides = entry
    if not leaf["nbytes"]:
        return address, None
    dtype = getattr(torch, leaf["dtype"])
    if address % dtype.itemsize:
        raise Interfered("an output lies at an address that is not aligned for its dtype")
    if strides is None:
        return address, None
    if not isinstance(strides, list) or not all(
        isinstance(step, int) and 0 <= step < MOST_STEP for step in strides
    ):
        raise Interfered("an output's strides are impossible")
    if not are_the_references(strides, leaf):
        raise Interfered(f"an output has the strides {strides}, which are not the reference's")
    if call_form.spread_bytes(leaf["shape"], strides, dtype.itemsize) != leaf["nbytes"]:
        raise Interfered("an output has gaps or overlapping elements")
    return address, strides
