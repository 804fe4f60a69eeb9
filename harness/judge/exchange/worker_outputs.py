"""Outputs in the memory of a worker's process, which the judge reads and writes from outside."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import math
import os
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...wire import buffers, frames
from ...workers import call_form, gate
from ...workers.gate_links import Part
from ..errors import Interfered
from ..processes.worker import Worker

MOST_PARTS = 512  # parts of memory in one system call; IOV_MAX is 1024
# the most bytes of a turn's outputs that are checked again after all calls; at least one is
COMPARED_BYTES = 64 << 20
WORD_BYTES = 8  # of an int64
_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True)
class OutputPlace:
    """The place of an output in a worker: address, bytes from its first to its last element,
    strides in elements unless it is contiguous."""

    address: int
    size: int
    strides: list[int] | None
    leaf: dict[str, Any]


@dataclass(frozen=True)
class OutputCopy:
    """Outputs of a call that the worker still holds: their places and their values. exempt: indices
    of those whose memory the reference uses again, which callers do not change."""

    places: list[OutputPlace]
    values: memoryview
    exempt: Sequence[int] = ()


class WorkerOutputs:
    """The outputs of one case in the memory of one worker's process. slot_bytes: of the dense
    outputs of one call. Methods raise what Worker.wait raises."""

    def __init__(
        self, worker: Worker, process: int, outputs: list[dict[str, Any]], slot_bytes: int
    ) -> None:
        self._worker, self._process = worker, process
        self._outputs, self._slot_bytes = outputs, slot_bytes
        self._reread = memoryview(b"")  # buffer for outputs that are read again

    def places(self, source: gate.Gate) -> list[OutputPlace]:
        """Return the places of the outputs as the worker reports them."""
        places = []
        for number, leaf in enumerate(self._outputs):
            address, size, strides = source.output(number)
            fits = size == leaf["nbytes"]
            if strides is not None:
                item = leaf["nbytes"] // max(1, _count(leaf))
                fits = (
                    are_the_references(strides, leaf)
                    and not are_dense(strides, leaf["shape"])  # more work for the judge
                    and call_form.spread_bytes(leaf["shape"], strides, item) == size
                )
            if not fits:
                raise interference(
                    self._worker,
                    f"output {number} is reported with {size} bytes and the strides {strides}",
                )
            places.append(OutputPlace(address, size, strides, leaf))
        return places

    def read(self, places: list[OutputPlace], slot: memoryview) -> None:
        """Read outputs into a slot, dense."""
        parts = [(place, place.leaf["offset"]) for place in places if place.size]
        self._copy(
            [
                (place.address, slot[offset : offset + place.size])
                for place, offset in parts
                if place.strides is None
            ]
        )
        for place, offset in parts:
            if place.strides is not None:
                spread = memoryview(bytearray(place.size))
                self._copy([(place.address, spread)])
                copy_dense(spread, place, slot[offset : offset + place.leaf["nbytes"]])

    def slot(self, storage: memoryview, number: int) -> memoryview:
        return storage[number * self._slot_bytes : (number + 1) * self._slot_bytes]

    def are_intact(self, calls: list[list[OutputPlace]], storage: memoryview) -> bool:
        """Return whether outputs of some earlier calls of the turn are unchanged."""
        earlier = len(calls) - 1
        sample = random.sample(
            range(earlier), min(earlier, max(1, COMPARED_BYTES // self._slot_bytes))
        )
        return all(
            self.is_intact(OutputCopy(calls[number], self.slot(storage, number)))
            for number in sample
        )

    def rewrite(self, places: Sequence[OutputPlace], exempt: Sequence[int]) -> None:
        """Write the outputs of a call again as they are, where they can be written, but for
        `exempt`."""
        for number, place in enumerate(places):
            if place.size and number not in exempt:
                values = memoryview(bytearray(place.size))
                with contextlib.suppress(OSError):
                    read_memory(self._process, [(place.address, values)])
                    write_memory(self._process, [(place.address, values)])

    def is_intact(self, copy: OutputCopy) -> bool:
        """Return whether outputs in the worker's memory are as they were when copied."""
        if not self._reread:  # kept, since allocating takes longer than reading
            self._reread = memoryview(bytearray(self._slot_bytes))
        self.read(copy.places, self._reread)
        return same(self._reread, copy.values, self._outputs)

    def _copy(self, parts: list[tuple[int, memoryview]]) -> None:
        try:
            read_memory(self._process, parts)
        except OSError as error:
            if error.errno == errno.ESRCH:
                self._worker.wait(frames.OK, 1.0)  # the worker has ended: raises the reason
            if error.errno in (errno.ESRCH, errno.EFAULT):
                raise interference(self._worker, "an output is not in its memory") from error
            raise


def interference(worker: Worker, text: str) -> Interfered:
    """End a worker whose side of a call does not work, and return the error."""
    worker.kill()
    return Interfered(text)


def copy_dense(spread: memoryview, place: OutputPlace, target: memoryview) -> None:
    """Copy an output with gaps to a dense target."""
    source = buffers.tensor(
        spread, {**place.leaf, "stride": place.strides, "nbytes": len(spread), "offset": 0}
    )
    buffers.tensor(target, {**place.leaf, "offset": 0}).copy_(source)


def are_the_references(strides: list[int], leaf: dict[str, Any]) -> bool:
    """Return whether these are the reference's strides. Reordering others would be work that the
    judge does for the candidate."""
    pairs = zip(leaf["shape"], strides, leaf.get("as", ()), strict=False)
    return len(strides) == len(leaf["shape"]) and all(
        extent == 1 or stride == reference for extent, stride, reference in pairs
    )


def are_dense(strides: Sequence[int], shape: Sequence[int]) -> bool:
    """Return whether a tensor with these strides is contiguous, so that none are reported."""
    steps = [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]
    pairs = zip(shape, strides, steps, strict=True)
    return all(extent == 1 or stride == step for extent, stride, step in pairs)


def same(one: memoryview, other: memoryview, outputs: list[dict[str, Any]]) -> bool:
    """Return whether all outputs of two slots are equal bit by bit, so that NaN equals itself."""
    parts = (slice(leaf["offset"], leaf["offset"] + leaf["nbytes"]) for leaf in outputs)
    return all(_equal(one[part], other[part]) for part in parts)


def read_memory(process: int, parts: Sequence[tuple[int, memoryview]]) -> None:
    """Copy from addresses in another process to memory in this one, by process_vm_readv(2). Raises
    OSError: EFAULT for unmapped memory, ESRCH for a process that has ended."""
    _transfer(_libc.process_vm_readv, process, parts)


def write_memory(process: int, parts: Sequence[tuple[int, memoryview]]) -> None:
    """Copy from memory in this process to addresses in another one, by process_vm_writev(2). Raises
    OSError: EFAULT for unmapped or read-only memory, ESRCH for a process that has ended."""
    _transfer(_libc.process_vm_writev, process, parts)


def _transfer(call: Any, process: int, parts: Sequence[tuple[int, memoryview]]) -> None:
    """parts: each address in the other process, with writable memory in this one."""
    for start in range(0, len(parts), MOST_PARTS):
        batch = parts[start : start + MOST_PARTS]
        local = (Part * len(batch))(*(Part(_address(here), len(here)) for _, here in batch))
        remote = (Part * len(batch))(*(Part(address, len(here)) for address, here in batch))
        count = ctypes.c_ulong(len(batch))
        done = call(process, local, count, remote, count, ctypes.c_ulong(0))
        if done != sum(len(here) for _, here in batch):
            number = ctypes.get_errno() if done < 0 else errno.EFAULT
            raise OSError(number, os.strerror(number))


def _count(leaf: dict[str, Any]) -> int:
    return math.prod(leaf["shape"])


def _equal(one: memoryview, other: memoryview) -> bool:
    """Compare whole words first, then the remaining bytes. This copies nothing, unlike bytes(), and
    torch compares words in a tenth of the time that a memoryview takes (16 MiB: 2 and 28 ms)."""
    import torch

    if len(one) != len(other):
        return False
    whole = len(one) // WORD_BYTES * WORD_BYTES
    if whole:  # torch.frombuffer does not accept empty memory
        words = (torch.frombuffer(each[:whole], dtype=torch.int64) for each in (one, other))
        if not torch.equal(*words):
            return False
    return one[whole:] == other[whole:]


def _address(memory: memoryview) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(memory))
