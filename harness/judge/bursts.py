"""One burst: calls on different inputs, timed inside the worker and from outside, with every output handed back.

The judge's clock starts before the worker can see the inputs and stops when the judge holds its own copy of the outputs, so that
whatever a candidate does for them lies inside, wherever it does it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..workers import buffers, frames
from .endings import Interfered
from .pool import CasePool
from .processes import Worker
from .sets import Group, InputSet

if TYPE_CHECKING:
    import torch

MOST_QUEUE_NS = 20_000_000  # for calls that wait for the device themselves
CHECK_CALLS = 3  # calls of a checking burst: two inputs, then the first again
HELD_CALLS, HELD_BYTES = 24, 256 << 20  # of one longer checking burst: outputs that are held before any is looked at


@dataclass(frozen=True)
class BurstResult:
    """Nanoseconds by the worker's clock (calls only: a claim) and by the judge's (from sending the inputs to holding the
    outputs). queued_ns: what the host took to issue the calls; on a CPU the same as inside_ns. Faults and involuntary switches are the
    worker's own count over the calls."""

    inside_ns: int
    outside_ns: int
    minor_faults: int
    major_faults: int
    switches: int
    queued_ns: int
    data: Any = None


_copy = bytearray()  # one for all slots: the judge looks at the outputs of one burst before it runs the next
_shelf = bytearray()


class _Shared:
    """Memory that one worker writes, too."""

    def __init__(self, size: int) -> None:
        self.fd = buffers.create("slots", size)
        buffers.seal(self.fd, writable=True)
        self.view = memoryview(buffers.shared(self.fd, size))

    def __del__(self) -> None:
        os.close(self.fd)


class Slots:
    """The memory that receives outputs: `count` slots, shared with one worker, and the judge's own copy of them. before: slots of the
    same worker that nobody needs any more; their memory serves again where it is large enough."""

    _shared: _Shared

    def __init__(self, count: int, slot_bytes: int, before: Slots | None = None) -> None:
        self.count, self.slot_bytes = count, slot_bytes
        size = count * slot_bytes
        self._shared = before._shared if before is not None and len(before._shared.view) >= size else _Shared(size)
        self._held = memoryview(b"")

    @property
    def fd(self) -> int:
        return self._shared.fd

    def take(self, count: int) -> None:
        """Copy the first `count` slots: what the worker writes from here on is not looked at."""
        global _copy
        size = count * self.slot_bytes
        if len(_copy) < size:
            _copy = bytearray(size)
        self._held = memoryview(_copy)[:size]
        self._held[:] = self._shared.view[:size]

    def tensors(self, layout: buffers.Layout, index: int) -> list[torch.Tensor]:
        """The outputs of one call as they were taken, valid until the next `take` of any slots."""
        return buffers.tensors(layout, self._held, index * self.slot_bytes)

    def put(self, place: memoryview) -> memoryview:
        """A copy of the outputs as they were taken, in memory of the caller's."""
        place[: len(self._held)] = self._held
        return place[: len(self._held)]


def shelf(places: int, size: int) -> list[memoryview]:
    """Places for outputs that wait for being looked at, in memory that is there before and is used again."""
    global _shelf
    if len(_shelf) < places * size:
        _shelf = bytearray(b"0") * (places * size)
    whole = memoryview(_shelf)
    return [whole[number * size : (number + 1) * size] for number in range(places)]


def forget() -> None:
    """Give the memory of the judge's copies back."""
    global _copy, _shelf
    _copy, _shelf = bytearray(), bytearray()


def hot(worker: Worker, key: str, held: InputSet, calls: int, seconds: float, queue_ns: int) -> tuple[float, float]:
    """Microseconds a call on one set of inputs over and over: with warm caches, and as a caller sees it who waits for each call.
    The worker's own claim, on inputs that it has seen before: shown beside the verdict, never judged. Raises what Worker.wait raises."""
    where = {"layout": held.layout, "base": held.base}
    reply = worker.ask("hot", worker.own(held.file.fd), seconds=seconds, key=key, calls=calls, queue_ns=queue_ns, **where)
    return reply.values[0] / 1e3 / calls, reply.values[1] / 1e3 / calls


def held_calls(pool: CasePool, patience_s: float) -> int:
    """How many outputs are held at once in the longer checking burst; fewer where they are large, or a call takes long."""
    if patience_s:
        return CHECK_CALLS
    return max(CHECK_CALLS, min(HELD_CALLS, HELD_BYTES // pool.slot_bytes))


def group(pool: CasePool, number: int) -> Group:
    """The sets of the burst `number`, cyclic."""
    return pool.timing[number % len(pool.timing)]


def run(
    worker: Worker,
    slots: Slots,
    key: str,
    sets: Sequence[InputSet],
    order: list[int],
    seconds: float,
    *,
    record: bool = False,
    queue_ns: int = 0,
) -> BurstResult:
    """One burst; its outputs lie in `slots` afterwards. queue_ns: how long a device waits for its launches to be queued, at least.
    Raises what Worker.wait raises."""
    files = {id(s.file): s.file.fd for s in sets}
    layouts = {id(s.layout): s.layout for s in sets}
    file_numbers, layout_numbers = ({key: number for number, key in enumerate(each)} for each in (files, layouts))
    where = [(file_numbers[id(s.file)], s.base, layout_numbers[id(s.layout)]) for s in sets]
    own = worker.own(*files.values())
    worker.send("burst", key=key, layouts=[*layouts.values()], sets=where, order=order, record=record, queue_ns=queue_ns)
    worker.wait(frames.READY, seconds)
    start = time.perf_counter_ns()
    worker.go(own)
    reply = worker.wait(frames.OK, seconds)
    slots.take(len(order))
    end = time.perf_counter_ns()
    return _result(worker, reply, end - start, worker.data(reply) if record else None)


def _result(worker: Worker, reply: frames.Reply, outside_ns: int, data: Any = None) -> BurstResult:
    inside, minor, major, switches, queued = reply.values[:5]
    if inside < 0:
        worker.kill()
        raise Interfered(f"its calls took {inside} ns by its own clock")
    return BurstResult(max(inside, 1), outside_ns, minor, major, switches, queued, data)  # a device's clock is coarse


def patience(queue_ns: int) -> int:
    """How long a device shall wait before a burst, the same for both sides: twice what queueing its launches took when it was warmed up.

    Measured on an H200: with a fixed wait a compiled call of 70 us looked like 95 to 180 us on a host that was slow to launch."""
    return min(MOST_QUEUE_NS, 2 * queue_ns)
