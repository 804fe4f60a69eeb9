"""Bursts on a device that shares memory with the judge: inputs appear in the worker's window, and
the judge copies outputs from the worker's memory.

Timed calls wait in the worker's stream for a word of the judge, with all their launches queued. The
judge copies the inputs into the window, evicts the caches and writes its word, all in one stream. A
device works for one process at a time, so no kernel sees the inputs earlier; a witness sees what
else it does for the worker before and afterwards. The same stream then waits for the worker's word
and copies the outputs. The judge's clock starts with its own word, on a
private page, and stops when this copy is complete. The worker's statements about time do not count,
and if it reports the end too early, its outputs are read too early. The time for anything besides
the calls (the copy, and two switches of the device between processes: 0.3 ms on an H200, constant
to 2 us) is measured with an empty burst and subtracted: it is the judge's work, which a candidate
could not speed up.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence
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
from .device_witness import Witness
from .input_sets import InputSet
from .slots import BurstResult, Slots, result_of

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class QueuedResult:
    """One burst of queued calls.

    before_ns: from the end of the watch, before any input is in the window, to the start, by the
    judge's events on the device. whole_ns: from the start until the judge has the outputs, by its
    own clock, including its own work. worker_result: the worker's report, as in BurstResult. ready:
    whether all launches were queued before the start. places: of the outputs in the worker, without
    empty ones. queueing_ns: from the judge's order until it knew where the outputs will lie, or
    gave the start without that, by its own clock.
    """

    before_ns: int
    whole_ns: int
    worker_result: BurstResult
    ready: bool
    places: list[DevicePlace]
    queueing_ns: int


class DeviceSlots(Slots):
    """Slots in the judge's own memory, which no worker can write to. predecessor: unneeded slots
    whose memory is reused."""

    def __init__(self, count: int, pool: CasePool, predecessor: DeviceSlots | None = None) -> None:
        self.count, self._pool, self._leaves = count, pool, pool.outputs["leaves"]
        self._stride = pool.slot_bytes
        size = count * self._stride
        self._call_count = 0  # calls whose outputs are in the slots
        self._places: list[DevicePlace] = []  # of the running burst
        self._shown: tuple[DeviceLink, WindowPlan] | None = None  # of the last queued burst
        # for outputs with other strides: the target, and the bytes as copied
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
        manner: str,
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
            manner=manner,
        )
        worker.wait(frames.READY, seconds)
        start = time.perf_counter_ns()
        link.put(plan)
        torch.cuda.synchronize()
        worker.signal_start()
        reply = worker.wait(frames.OK, seconds)
        report = worker.data(reply)
        if not isinstance(report, dict):
            raise Interfered("it does not report where its outputs lie")
        copy(self._plan_copies(link, report.get("outputs"), len(order)))
        torch.cuda.synchronize()
        self._call_count, self._places = len(order), []
        self.reorder()
        return result_of(reply, time.perf_counter_ns() - start, report.get("operators"))

    def run_queued(
        self,
        worker: Worker,
        key: str,
        sets: Sequence[InputSet],
        seconds: float,
        patience_s: float,
        *,
        witness: Witness | None,
        early: bool = False,
        also: Copies | None = None,
        look: Callable[[], None] | None = None,
    ) -> QueuedResult:
        """Run a call on each of the sets, in order. Without a key no model is called, but as many
        bytes are copied. patience_s: how long the worker may take to queue its launches; after that
        the start is given anyway, since a call that waits for the device itself never finishes
        queueing. witness: it watches the device since before the worker's turn; None where the
        judge may still have to load kernels. early: let the worker's word come as early as
        possible; used only with the judge's own workers. also: copies to make behind those of the
        outputs, before the clock stops. look: called once the launches are queued, before the
        start: the memory that they will use is held then. Another watch begins when the clock has
        stopped."""
        link = device_link.link(worker)
        plan = link.place(sets)
        self._shown = link, plan
        link.number += 1
        arguments: dict[str, Any] = {"early": True} if early else {}
        ordered = time.perf_counter_ns()
        worker.send(
            "queued",
            key=key,
            layouts=plan.layouts,
            sets=plan.where,
            number=link.number,
            **arguments,
        )
        gc.disable()
        try:
            ready = worker.has_message(patience_s)
            copies = self._receive_copies(worker, link, key, len(sets), seconds) if ready else None
            # not by the first message, which may be one about memory
            queueing_ns = time.perf_counter_ns() - ordered
            if look is not None:
                look()
            before_ns, whole_ns, reply = self._measure(
                worker, link, plan, copies, key, len(sets), seconds, also or [], witness
            )
            if witness is not None:
                witness.note()
                witness.start()
            self._call_count = len(sets)
            reply = reply or worker.wait(frames.OK, seconds)
            if reply.code != frames.OK:
                raise Interfered(f"reply {reply.code} where {frames.OK} was expected")
        except BaseException:
            worker.kill()
            worker.wait_for_end()  # until then it could write to the words
            raise
        finally:
            gc.enable()
            # release every wait for the words, however the burst ends
            link.words[GO] = link.words[DONE] = link.number
            places, self._places = self._places, []
        burst = result_of(reply, whole_ns)
        return QueuedResult(before_ns, whole_ns, burst, ready, places, queueing_ns)

    def _measure(
        self,
        worker: Worker,
        link: DeviceLink,
        plan: WindowPlan,
        copies: Copies | None,
        key: str,
        calls: int,
        seconds: float,
        also: Copies,
        witness: Witness | None,
    ) -> tuple[int, int, frames.Reply | None]:
        """Return before_ns and whole_ns, see QueuedResult, and the worker's last reply if it has
        come meanwhile. copies: None if the worker has not yet reported where its outputs will lie.
        witness: its watch, behind which all is queued, ends."""
        import torch

        stream, private, deadline = (
            torch.cuda.current_stream().cuda_stream,
            device_clock.private_words(),
            time.monotonic() + seconds,
        )
        private.number += 1
        first, start, last = device_clock.clock_events()
        # everything below is queued behind this, while the device works for the judge
        first.record()
        device_clock.flush_memory().zero_()
        link.put(plan)
        device_clock.flush_memory().zero_()
        # first the judge's word: if the device switches in between, the time counts as the calls'
        private.words.write_on(stream, GO, private.number)
        link.words.write_on(stream, GO, link.number)
        start.record()
        is_announced = copies is not None
        if copies is not None:
            link.words.await_on(stream, DONE, link.number)
            copy([*copies, *also])
            last.record()
        if witness is not None:
            witness.stop()
        device_clock.wait_until(
            lambda: private.words[GO] == private.number, worker, deadline, deaf=True
        )
        began = time.perf_counter_ns()
        if copies is None:
            copies = self._receive_copies(worker, link, key, calls, seconds)
        link.closed, reply = True, None
        try:
            if not is_announced:
                reply = device_clock.wait_until(
                    lambda: link.words[DONE] == link.number, worker, deadline, reply
                )
                copy([*copies, *also])
                last.record()
            reply = device_clock.wait_until(last.query, worker, deadline, reply)
        finally:
            link.closed = False
        return int(1e6 * first.elapsed_time(start)), time.perf_counter_ns() - began, reply

    def reorder(self) -> None:
        """Bring the last burst's outputs with other strides into order. A queued burst leaves
        that to its caller, since a watch may run."""
        for place, raw in self._reorderings:
            place.copy_(raw.clone())

    def inputs_are_intact(self) -> bool:
        """Return whether the inputs of the last queued burst are as they were shown. The worker is
        stopped."""
        if self._shown is None:
            return True
        link, plan = self._shown
        return link.is_intact(plan)

    def tensors(self, layout: Layout, index: int) -> list[torch.Tensor]:
        return buffers.tensors(layout, self._memory, index * self._stride)

    def put(self, place: Any) -> None:
        size = self._call_count * self._stride
        place[:size].copy_(self._memory[:size])

    def copies(self, places: Sequence[DevicePlace], call: int) -> list[DeviceCopy]:
        """Copy the outputs of one call of the last burst. places: those of all outputs in the
        worker."""
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
    ) -> Copies:
        """Return the copies to make when the outputs are there; for empty calls as many bytes of a
        filler."""
        entries = worker.data(worker.wait(frames.READY, seconds))
        self._reorderings = []
        if key:
            return self._plan_copies(link, entries, calls)
        return group_copies(
            [
                (place, self._filler[start : start + len(place)])
                for start, place in self._flat(calls)
            ]
        )

    def _flat(self, calls: int) -> list[tuple[int, torch.Tensor]]:
        """Return the start of each output in the slots, and its bytes."""
        starts = [
            (call * self._stride + leaf["offset"], leaf["nbytes"])
            for call in range(calls)
            for leaf in self._leaves
        ]
        return [(start, self._memory[start : start + nbytes]) for start, nbytes in starts]

    def _plan_copies(self, link: DeviceLink, entries: Any, calls: int) -> Copies:
        """Plan the copies from the worker's memory to the judge's. Raises Interfered if the
        reported places are impossible."""
        import torch

        if not isinstance(entries, list) or len(entries) != calls * len(self._leaves):
            raise Interfered("it does not report where all of its outputs lie")
        copies: list[tuple[torch.Tensor, torch.Tensor]] = []
        self._reorderings, self._places = [], []
        for number, (each, (_, place)) in enumerate(zip(entries, self._flat(calls), strict=True)):
            leaf = self._leaves[number % len(self._leaves)]
            address, strides = check_place(each, leaf)
            if not leaf["nbytes"]:
                continue
            source = link.bytes_at(address, leaf["nbytes"])
            copies.append((place, source))
            dtype = getattr(torch, leaf["dtype"])
            self._places.append(
                DevicePlace(number, address, source, strides, dtype.itemsize, dtype is torch.bool)
            )
            if strides is None:
                continue
            # brought into order later, when no clock runs
            self._reorderings.append(
                (
                    place.view(dtype).view(leaf["shape"]),
                    place.view(dtype).as_strided(leaf["shape"], strides),
                )
            )
        return group_copies(copies)
