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
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any

from ...wire import buffers, frames
from ...wire.device_memory import DONE, GO, STEP, SharedWords
from ...workers import gate
from ..errors import Interfered, WorkerTimeout
from ..processes.worker import Worker
from . import device_link
from .case_pool import CasePool
from .device_copies import Copies, Lying, Taken, copy, grouped
from .device_link import DeviceLink, Placed
from .input_sets import InputSet
from .slots import BurstResult, Slots, result_of

if TYPE_CHECKING:
    import torch

FLUSH_BYTES = 256 << 20  # more than any last-level cache of the devices at hand (an H200 has 60 MB)
LOOK_S = 0.002  # between two looks after a worker whose calls run
MOST_STEP = 1 << 40  # elements


@dataclass(frozen=True)
class QueuedResult:
    """One burst of queued calls. before_ns: from the first byte of the inputs in the window to the
    start, by the judge's events on the device. whole_ns: from the start until the judge held the
    outputs, by its own clock, with all that it does itself. said: what the worker says of it, as in
    BurstResult. ready: whether all launches were queued before the start. reached_ns: how long the
    device kept the judge waiting before any of it, when nobody should have had work for it.
    lie: where the worker has the outputs, but for empty ones."""

    before_ns: int
    whole_ns: int
    said: BurstResult
    ready: bool
    reached_ns: int
    lie: list[Lying]


class DeviceSlots(Slots):
    """Slots in memory of the judge's own, which no worker can write to. before: others that nobody
    needs any more."""

    def __init__(self, count: int, pool: CasePool, before: DeviceSlots | None = None) -> None:
        self.count, self._pool, self._leaves = count, pool, pool.outputs["leaves"]
        self._stride = pool.slot_bytes
        size = count * self._stride
        self._taken = 0  # calls whose outputs are held
        self._lie: list[Lying] = []  # of a burst, until it is over
        self._turned: list[
            tuple[torch.Tensor, torch.Tensor]
        ] = []  # outputs in other strides: where they belong, as they were copied
        self._held: torch.Tensor = (
            before._held if before is not None and before._held.numel() >= size else _room(size)
        )

    @cached_property
    def _other(self) -> torch.Tensor:
        return _room(self.count * self._stride)

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
        placed = link.place(sets)
        worker.send(
            "shown",
            key=key,
            layouts=placed.layouts,
            sets=placed.where,
            order=order,
            record=record,
            queue_ns=queue_ns,
        )
        worker.wait(frames.READY, seconds)
        start = time.perf_counter_ns()
        link.put(placed)
        torch.cuda.synchronize()
        worker.signal_start([])
        reply = worker.wait(frames.OK, seconds)
        said = worker.data(reply)
        if not isinstance(said, dict):
            raise Interfered("it does not say where its outputs lie")
        copy(self._copies(link, said.get("outputs"), len(order)))
        torch.cuda.synchronize()
        self._taken, self._lie = len(order), []
        self._order()
        return result_of(reply, time.perf_counter_ns() - start, said.get("operators"))

    def queued(
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
        placed = link.place(sets)
        link.number += 1
        reached_ns = _reached()
        arguments: dict[str, Any] = {"early": True} if early else {}
        worker.send(
            "queued",
            key=key,
            layouts=placed.layouts,
            sets=placed.where if key else [],
            number=link.number,
            **arguments,
        )
        gc.disable()
        try:
            ready = worker.has_message(patience_s)
            copies = self._said(worker, link, key, len(sets), seconds) if ready else None
            before_ns, whole_ns, reply = self._measured(
                worker, link, placed, copies, key, len(sets), seconds
            )
            self._taken = len(sets)
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
            lie, self._lie = self._lie, []
        self._order()
        return QueuedResult(before_ns, whole_ns, result_of(reply, whole_ns), ready, reached_ns, lie)

    def _measured(
        self,
        worker: Worker,
        link: DeviceLink,
        placed: Placed,
        copies: Copies | None,
        key: str,
        calls: int,
        seconds: float,
    ) -> tuple[int, int, frames.Reply | None]:
        """Nanoseconds of both parts, see QueuedResult; and the worker's last word, if it has come
        meanwhile. copies: None of a worker that has not said yet where its outputs will lie."""
        import torch

        stream, own, deadline = (
            torch.cuda.current_stream().cuda_stream,
            _private(),
            time.monotonic() + seconds,
        )
        own.number += 1
        first, start, last = _events()
        _flushed().zero_()  # what follows is queued behind it, and the device is the judge's
        first.record()
        link.put(placed)
        _flushed().zero_()
        # first: were the device taken away in between, it would be from the candidate
        own.words.write_on(stream, GO, own.number)
        link.words.write_on(stream, GO, link.number)
        start.record()
        early = copies is not None
        if copies is not None:
            link.words.await_on(stream, DONE, link.number)
            copy(copies)
            last.record()
        reply = _until(lambda: own.words[GO] == own.number, worker, deadline)
        begun = time.perf_counter_ns()
        if copies is None:
            copies = self._said(worker, link, key, calls, seconds, reply)
            reply = None
        link.closed = True
        try:
            if not early:
                reply = _until(lambda: link.words[DONE] == link.number, worker, deadline, reply)
                copy(copies)
                last.record()
            reply = _until(last.query, worker, deadline, reply)
        finally:
            link.closed = False
        return int(1e6 * first.elapsed_time(start)), time.perf_counter_ns() - begun, reply

    def tensors(self, layout: buffers.Layout, index: int) -> list[torch.Tensor]:
        return buffers.tensors(layout, self._held, index * self._stride)

    def put(self, place: Any) -> None:
        size = self._taken * self._stride
        place[:size].copy_(self._held[:size])

    def taken(self, lie: Sequence[Lying], call: int) -> list[Taken]:
        """Copies of the outputs of one call of the last burst. lie: where the worker has all."""
        import torch

        found = []
        for one in lie:
            if one.number // len(self._leaves) != call:
                continue
            leaf = self._leaves[one.number % len(self._leaves)]
            dtype, shape = getattr(torch, leaf["dtype"]), leaf["shape"]
            start, there = call * self._stride + leaf["offset"], one.there.view(dtype)
            there = there.as_strided(shape, one.strides) if one.strides else there.view(shape)
            value = self._held[start : start + leaf["nbytes"]].clone()
            found.append(Taken(there, value.view(dtype).view(shape)))
        return found

    def storage(self, places: int, calls: int) -> list[Any]:
        size = calls * self._stride
        whole = _room(places * size)
        return [whole[number * size : (number + 1) * size] for number in range(places)]

    def stacked(self, place: Any, calls: int) -> list[torch.Tensor]:
        return buffers.stacked(self._pool.outputs, place, calls, self._stride)

    # ---- how

    def _said(
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
        said = worker.data(reply or worker.wait(frames.READY, seconds))
        self._turned = []
        if key:
            return self._copies(link, said, calls)
        return grouped(
            [(place, self._other[start : start + len(place)]) for start, place in self._flat(calls)]
        )

    def _order(self) -> None:
        """Bring outputs that came in other strides into order."""
        for place, raw in self._turned:
            place.copy_(raw.clone())

    def _flat(self, calls: int) -> list[tuple[int, torch.Tensor]]:
        """The places of all outputs, as bytes, and where they start."""
        starts = [
            (call * self._stride + leaf["offset"], leaf["nbytes"])
            for call in range(calls)
            for leaf in self._leaves
        ]
        return [(start, self._held[start : start + nbytes]) for start, nbytes in starts]

    def _copies(self, link: DeviceLink, said: Any, calls: int) -> Copies:
        """From the worker's memory to the judge's. Raises Interfered where what it says cannot
        be."""
        import torch

        if not isinstance(said, list) or len(said) != calls * len(self._leaves):
            raise Interfered("it does not say where all of its outputs lie")
        found: list[tuple[torch.Tensor, torch.Tensor]] = []
        self._turned, self._lie = [], []
        for number, (each, (_, place)) in enumerate(zip(said, self._flat(calls), strict=True)):
            leaf = self._leaves[number % len(self._leaves)]
            if (
                not isinstance(each, list)
                or len(each) != 2
                or not isinstance(each[0], int)
                or each[0] < 0
            ):
                raise Interfered("it does not say where an output lies")
            address, strides = each
            if not leaf["nbytes"]:
                continue
            dtype = getattr(torch, leaf["dtype"])
            if address % dtype.itemsize:
                raise Interfered("an output lies at an address that its dtype does not have")
            if strides is None:
                found.append((place, link.bytes_at(address, leaf["nbytes"])))
                self._lie.append(Lying(number, found[-1][1], None))
                continue
            if not isinstance(strides, list) or not all(
                isinstance(step, int) and 0 <= step < MOST_STEP for step in strides
            ):
                raise Interfered("an output's strides cannot be")
            if len(strides) != len(leaf["shape"]):
                raise Interfered("an output has strides of another dimension")
            if gate.spread_bytes(leaf["shape"], strides, dtype.itemsize) != leaf["nbytes"]:
                raise Interfered("an output has gaps, or elements that are several")
            # brought into order when no clock runs
            found.append((place, link.bytes_at(address, leaf["nbytes"])))
            self._lie.append(Lying(number, found[-1][1], strides))
            self._turned.append(
                (
                    place.view(dtype).view(leaf["shape"]),
                    place.view(dtype).as_strided(leaf["shape"], strides),
                )
            )
        return grouped(found)


def _until(
    over: Callable[[], bool], worker: Worker, deadline: float, reply: frames.Reply | None = None
) -> frames.Reply | None:
    """Wait until it is so. What the worker says meanwhile, which ends nothing: it may have done
    before the judge's copy has. Raises what Worker.wait raises."""
    look = time.monotonic() + LOOK_S
    while not over():
        if (now := time.monotonic()) < look:
            continue
        look = now + LOOK_S
        if now > deadline:
            worker.kill()
            raise WorkerTimeout
        if reply is None:
            reply = worker.poll_reply()[0]
    return reply


class _Private:
    """Words that no worker sees: the judge's clock goes by them."""

    def __init__(self) -> None:
        fd = SharedWords.file()
        self.words, self.number = SharedWords(fd), 0
        os.close(fd)


@cache
def _private() -> _Private:
    return _Private()


def _room(size: int) -> torch.Tensor:
    import torch

    return torch.empty(max(1, size), dtype=torch.uint8, device="cuda")


def _reached() -> int:
    """Nanoseconds until the device has done next to nothing for this process."""
    import torch

    torch.cuda.synchronize()
    begun = time.perf_counter_ns()
    _flushed()[:STEP].zero_()
    torch.cuda.synchronize()
    return time.perf_counter_ns() - begun


@cache
def _events() -> tuple[Any, Any, Any]:
    import torch

    first, start, last = (torch.cuda.Event(enable_timing=True) for _ in range(3))  # type: ignore[no-untyped-call]
    return first, start, last


@cache
def _flushed() -> torch.Tensor:
    """Memory that is written to evict what the caches hold."""
    return _room(FLUSH_BYTES)
