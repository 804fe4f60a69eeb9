"""Bursts whose inputs and outputs pass through host memory: calls on different inputs, timed inside
the worker and from outside, with every output returned.

The judge's clock starts before the worker can see the inputs and stops when the judge has its own
copy of the outputs. It therefore includes everything that a candidate does for them.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ...wire import buffers, frames, memory_files
from ...wire.layouts import Layout
from ..processes.worker import Worker
from .case_pool import CasePool
from .input_sets import InputSet
from .slots import BurstResult, Slots, result_of

if TYPE_CHECKING:
    import torch

# shared by all slots: the judge checks the outputs of one burst before it runs the next
_copy = bytearray()
_storage = bytearray()


class _Shared:
    """Memory that one worker can write to as well."""

    def __init__(self, size: int) -> None:
        self.fd = memory_files.create("slots", size)
        memory_files.seal(self.fd, writable=True)
        self.view = memoryview(memory_files.map_shared(self.fd, size))

    def __del__(self) -> None:
        os.close(self.fd)


class HostSlots(Slots):
    """Slots in memory that is shared with one worker, and the judge's own copy of them. before:
    unneeded slots of the same worker, whose memory is reused if it is large enough."""

    _shared: _Shared

    def __init__(self, count: int, pool: CasePool, before: HostSlots | None = None) -> None:
        self.count, self._pool = count, pool
        size = count * pool.slot_bytes
        self._shared = (
            before._shared
            if before is not None and len(before._shared.view) >= size
            else _Shared(size)
        )
        self._outputs = memoryview(b"")
        self.fds = (self._shared.fd,)

    def run(
        self,
        worker: Worker,
        key: str,
        sets: Sequence[InputSet],
        order: list[int],
        seconds: float,
        *,
        record: bool,
        queue_ns: int,
        manner: str,
    ) -> BurstResult:
        files = {id(s.file): s.file.fd for s in sets}
        layouts = {id(s.layout): s.layout for s in sets}
        file_numbers, layout_numbers = (
            {key: number for number, key in enumerate(each)} for each in (files, layouts)
        )
        where = [(file_numbers[id(s.file)], s.base, layout_numbers[id(s.layout)]) for s in sets]
        copies = worker.private_copies(*files.values())
        start = time.perf_counter_ns()
        worker.send(
            "burst",
            copies,
            key=key,
            layouts=[*layouts.values()],
            sets=where,
            order=order,
            record=record,
            queue_ns=queue_ns,
            manner=manner,
        )
        reply = worker.wait(frames.OK, seconds)
        self._take(len(order))
        end = time.perf_counter_ns()
        return result_of(reply, end - start, worker.data(reply) if record else None)

    def _take(self, count: int) -> None:
        """Copy the first `count` slots, so that later writes of the worker have no effect."""
        global _copy
        size = count * self._pool.slot_bytes
        if len(_copy) < size:
            _copy = bytearray(size)
        self._outputs = memoryview(_copy)[:size]
        self._outputs[:] = self._shared.view[:size]

    def tensors(self, layout: Layout, index: int) -> list[torch.Tensor]:
        return buffers.tensors(layout, self._outputs, index * self._pool.slot_bytes)

    def put(self, place: Any) -> None:
        place[: len(self._outputs)] = self._outputs

    def storage(self, places: int, calls: int) -> list[Any]:
        """Return places in memory that is allocated once and reused."""
        global _storage
        size = calls * self._pool.slot_bytes
        if len(_storage) < places * size:
            _storage = bytearray(b"0") * (places * size)
        whole = memoryview(_storage)
        return [whole[number * size : (number + 1) * size] for number in range(places)]

    def stack(self, place: Any, calls: int) -> list[torch.Tensor]:
        return buffers.stack(self._pool.outputs, place, calls, self._pool.slot_bytes)


def forget() -> None:
    """Release the memory of the judge's copies."""
    global _copy, _storage
    _copy, _storage = bytearray(), bytearray()
