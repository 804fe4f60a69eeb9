"""Bursts on a device that shares memory with the judge: inputs appear in the worker's window,
outputs are copied from where they lie.

Calls that are timed wait in the worker's stream for a word of the judge's, with all their launches
queued. The judge copies the inputs into the window, evicts the caches and writes its word, all in
one stream: a device works for one process at a time, so that no kernel sees any of it before. The
same stream waits for the worker's word then, and copies the outputs. The judge's clock starts with
its own word, on a page of its own, and stops when that copy is complete: what the worker says about
time counts for nothing, and who says too early that all is done is read too early. What lies
between besides the calls (the copy, and two changes of the device from process to process: 0.3 ms
on an H200, the same to 2 us) is measured with a burst that calls nothing, and taken off: the judge
does it, and nobody else could do it faster.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ...wire import buffers, frames
from ...wire.layouts import Layout
from ...wire.stream_words import DONE, GO
from ..errors import Interfered
from ..processes.worker import Worker
from . import device_clock, device_link
from .case_pool import CasePool
from .device_copies import Copies, DeviceCopy, DevicePlace, check_place, copy, group_copies
from .device_link import DeviceLink, WindowPlan
from .input_sets import InputSet
from .slots import BurstResult, Slots, result_of

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class QueuedResult:
    """One burst of queued calls. before_ns: from the first byte of the inputs in the window to the
    start, by the judge's events on the device. whole_ns: from the start until the judge held the
    outputs, by its own clock, with all that it does itself. worker_result: what the worker says of
    it, as in BurstResult. ready: whether all launches were queued before the start. reach_ns: how
    long the device kept the judge waiting before any of it, when nobody should have had work for
    it. places: where the worker has the outputs, but for empty ones."""

    before_ns: int
    whole_ns: int
    worker_result: BurstResult
    ready: bool
    reach_ns: int
    places: list[DevicePlace]


class DeviceSlots(Slots):
    """Slots in memory of the judge's own, which no worker can write to. predecessor: others that
    nobody needs any more."""

    def __init__(self, count: int, pool: CasePool, predecessor: DeviceSlots | None = None) -> None:
        self.count, self._pool, self._leaves = count, pool, pool.outputs["leaves"]
        self._stride = pool.slot_bytes
        size = count * self._stride
        self._call_count = 0  # calls whose outputs are held
        self._places: list[DevicePlace] = []  # of a burst, until it is over
        # of outputs in other strides: where they belong, and how they were copied
        self._reorderings: list[tuple[torch.Tensor, torch.Tensor]] = []
        self._memory: torch.Tensor = (
            predecessor._memory
            if predecessor is not None and predecessor._memory.numel() >= size
            else device_clock.allocate(size)
        )

    @cached_property
    def _filler(self) -> torch.Tensor:
        return device_clock.allocate(self.count * self._stride)

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
    ) -> BurstResult:
        import torch

        device_link.give_back()
        link = device_link.link(worker)
        plan = link.place(sets)
        worker.send(
            "shown",
            key=key,
            layouts=plan.layouts,
            sets=plan.where,
            order=order,
            record=record,
            queue_ns=queue_ns,
        )
        worker.wait(frames.READY, seconds)
        start = time.perf_counter_ns()
        link.put(plan)
        torch.cuda.synchronize()
        worker.signal_start([])
        reply = worker.wait(frames.OK, seconds)
        report = worker.data(reply)
        if not isinstance(report, dict):
            raise Interfered("it does not say where its outputs lie")
        copy(self._plan_copies(link, report.get("outputs"), len(order)))
        torch.cuda.synchronize()
        self._call_count, self._places = len(order), []
        self._reorder()
        return result_of(reply, time.perf_counter_ns() - start, report.get("operators"))

    def run_queued(
        self,
        worker: Worker,
        key: str,
        sets: Sequence[InputSet],
        seconds: float,
        patience_s: float,
        *,
        early: bool = False,
    ) -> QueuedResult:
        """A call on each of the sets, in their order. Without a key nothing is called, and as many
        bytes are copied. patience_s: how long the worker may take to queue its launches; a call
        that waits for the device itself never ends queueing, so that the start is given without.
        early: the worker is heard as early as one could be, which is asked of nobody but the
        judge's own."""
        link = device_link.link(worker)
        plan = link.place(sets)
        link.number += 1
        reach_ns = device_clock.measure_reach_ns()
        arguments: dict[str, Any] = {"early": True} if early else {}
        worker.send(
            "queued",
            key=key,
            layouts=plan.layouts,
            sets=plan.where if key else [],
            number=link.number,
            **arguments,
        )
        gc.disable()
        try:
            ready = worker.has_message(patience_s)
            copies = self._receive_copies(worker, link, key, len(sets), seconds) if ready else None
            before_ns, whole_ns, reply = self._measure(
                worker, link, plan, copies, key, len(sets), seconds
            )
            self._call_count = len(sets)
            reply = reply or worker.wait(frames.OK, seconds)
            if reply.code != frames.OK:
                raise Interfered(f"reply {reply.code} where {frames.OK} was due")
        except BaseException:
            worker.kill()
            worker.wait_for_end()  # it could write to the words until then
            raise
        finally:
            gc.enable()
            # nobody waits for any of it any more, however this ends
            link.words[GO] = link.words[DONE] = link.number
            places, self._places = self._places, []
        self._reorder()
        return QueuedResult(
            before_ns, whole_ns, result_of(reply, whole_ns), ready, reach_ns, places
        )

    def _measure(
        self,
        worker: Worker,
        link: DeviceLink,
        plan: WindowPlan,
        copies: Copies | None,
        key: str,
        calls: int,
        seconds: float,
    ) -> tuple[int, int, frames.Reply | None]:
        """Nanoseconds of both parts, see QueuedResult; and the worker's last word, if it has come
        meanwhile. copies: None of a worker that has not said yet where its outputs will lie."""
        import torch

        stream, private, deadline = (
            torch.cuda.current_stream().cuda_stream,
            device_clock.private_words(),
            time.monotonic() + seconds,
        )
        private.number += 1
        first, start, last = device_clock.clock_events()
        # what follows is queued behind it, and the device is the judge's
        device_clock.flush_memory().zero_()
        first.record()
        link.put(plan)
        device_clock.flush_memory().zero_()
        # first: were the device taken away in between, it would be from the candidate
        private.words.write_on(stream, GO, private.number)
        link.words.write_on(stream, GO, link.number)
        start.record()
        is_announced = copies is not None
        if copies is not None:
            link.words.await_on(stream, DONE, link.number)
            copy(copies)
            last.record()
        reply = device_clock.wait_until(
            lambda: private.words[GO] == private.number, worker, deadline
        )
        began = time.perf_counter_ns()
        if copies is None:
            copies = self._receive_copies(worker, link, key, calls, seconds, reply)
            reply = None
        link.closed = True
        try:
            if not is_announced:
                reply = device_clock.wait_until(
                    lambda: link.words[DONE] == link.number, worker, deadline, reply
                )
                copy(copies)
                last.record()
            reply = device_clock.wait_until(last.query, worker, deadline, reply)
        finally:
            link.closed = False
        return int(1e6 * first.elapsed_time(start)), time.perf_counter_ns() - began, reply

    def tensors(self, layout: Layout, index: int) -> list[torch.Tensor]:
        return buffers.tensors(layout, self._memory, index * self._stride)

    def put(self, place: Any) -> None:
        size = self._call_count * self._stride
        place[:size].copy_(self._memory[:size])

    def copies(self, places: Sequence[DevicePlace], call: int) -> list[DeviceCopy]:
        """Copy the outputs of one call of the last burst. places: where the worker has all."""
        import torch

        copies = []
        for place in places:
            if place.number // len(self._leaves) != call:
                continue
            leaf = self._leaves[place.number % len(self._leaves)]
            dtype, shape = getattr(torch, leaf["dtype"]), leaf["shape"]
            start, there = call * self._stride + leaf["offset"], place.there.view(dtype)
            there = there.as_strided(shape, place.strides) if place.strides else there.view(shape)
            value = self._memory[start : start + leaf["nbytes"]].clone()
            copies.append(DeviceCopy(there, value.view(dtype).view(shape)))
        return copies

    def storage(self, places: int, calls: int) -> list[Any]:
        size = calls * self._stride
        whole = device_clock.allocate(places * size)
        return [whole[number * size : (number + 1) * size] for number in range(places)]

    def stack(self, place: Any, calls: int) -> list[torch.Tensor]:
        return buffers.stack(self._pool.outputs, place, calls, self._stride)

    def _receive_copies(
        self,
        worker: Worker,
        link: DeviceLink,
        key: str,
        calls: int,
        seconds: float,
        reply: frames.Reply | None = None,
    ) -> Copies:
        """What is to be copied once it is there; for calls of nothing as much of something else.
        reply: with which it was said, if it was heard."""
        entries = worker.data(reply or worker.wait(frames.READY, seconds))
        self._reorderings = []
        if key:
            return self._plan_copies(link, entries, calls)
        return group_copies(
            [
                (place, self._filler[start : start + len(place)])
                for start, place in self._flat(calls)
            ]
        )

    def _reorder(self) -> None:
        """Bring outputs that came in other strides into order."""
        for place, raw in self._reorderings:
            place.copy_(raw.clone())

    def _flat(self, calls: int) -> list[tuple[int, torch.Tensor]]:
        """The places of all outputs, as bytes, and where they start."""
        starts = [
            (call * self._stride + leaf["offset"], leaf["nbytes"])
            for call in range(calls)
            for leaf in self._leaves
        ]
        return [(start, self._memory[start : start + nbytes]) for start, nbytes in starts]

    def _plan_copies(self, link: DeviceLink, entries: Any, calls: int) -> Copies:
        """From the worker's memory to the judge's. Raises Interfered where what it says cannot
        be."""
        import torch

        if not isinstance(entries, list) or len(entries) != calls * len(self._leaves):
            raise Interfered("it does not say where all of its outputs lie")
        copies: list[tuple[torch.Tensor, torch.Tensor]] = []
        self._reorderings, self._places = [], []
        for number, (each, (_, place)) in enumerate(zip(entries, self._flat(calls), strict=True)):
            leaf = self._leaves[number % len(self._leaves)]
            address, strides = check_place(each, leaf)
            if not leaf["nbytes"]:
                continue
            source = link.bytes_at(address, leaf["nbytes"])
            copies.append((place, source))
            self._places.append(DevicePlace(number, source, strides))
            if strides is None:
                continue
            # brought into order when no clock runs
            dtype = getattr(torch, leaf["dtype"])
            self._reorderings.append(
                (
                    place.view(dtype).view(leaf["shape"]),
                    place.view(dtype).as_strided(leaf["shape"], strides),
                )
            )
        return group_copies(copies)
