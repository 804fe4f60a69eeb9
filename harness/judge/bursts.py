"""One burst: calls on different inputs, timed inside the worker and from outside, with every output handed back."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..workers import buffers, frames
from .pool import CasePool, InputSet
from .processes import Worker

if TYPE_CHECKING:
    import torch

MOST_QUEUE_NS = 20_000_000  # for calls that wait for the device themselves
CHECK_CALLS = 3  # calls of a checking burst: two inputs, then the first again


@dataclass(frozen=True)
class BurstResult:
    """Nanoseconds by the worker's clock (calls only: a claim) and by the judge's (start signal to the answer, with the copies of
    the outputs). queued_ns: what the host took to issue the calls; on a CPU the same as inside_ns. Faults and involuntary switches are the worker's own count over the calls."""

    inside_ns: int
    outside_ns: int
    minor_faults: int
    major_faults: int
    switches: int
    queued_ns: int
    data: Any = None


class Slots:
    """The memory that receives outputs: `count` slots, shared with one worker."""

    def __init__(self, count: int, slot_bytes: int) -> None:
        self.count, self.slot_bytes = count, slot_bytes
        self.fd = buffers.create("slots", count * slot_bytes)
        buffers.seal(self.fd, writable=True)
        self._mapped = buffers.shared(self.fd, count * slot_bytes)

    def tensors(self, layout: buffers.Layout, index: int) -> list[torch.Tensor]:
        """The outputs of one call, as views of the shared memory."""
        return buffers.tensors(layout, self._mapped, index * self.slot_bytes)

    def __del__(self) -> None:
        import os

        os.close(self.fd)


def hot(worker: Worker, key: str, held: InputSet, calls: int, seconds: float, queue_ns: int) -> tuple[float, float]:
    """Microseconds a call on one set of inputs over and over: with warm caches, and as a caller sees it who waits for each call.
    The worker's own claim, on inputs that it has seen before: shown beside the verdict, never judged. Raises what Worker.wait raises."""
    reply = worker.ask("hot", [held.inputs], seconds=seconds, key=key, layout=held.layout, calls=calls, queue_ns=queue_ns)
    return reply.values[0] / 1e3 / calls, reply.values[1] / 1e3 / calls


def group(pool: CasePool, number: int) -> list[InputSet]:
    """The sets of the burst `number`, cyclic."""
    bursts = len(pool.timing) // pool.calls
    start = (number % bursts) * pool.calls
    return pool.timing[start : start + pool.calls]


def run(
    worker: Worker,
    key: str,
    sets: Sequence[InputSet],
    order: list[int],
    seconds: float,
    *,
    record: bool = False,
    queue_ns: int = 0,
) -> BurstResult:
    """One burst. queue_ns: how long a device waits for its launches to be queued, at least. Raises what Worker.wait raises."""
    layouts = [s.layout for s in sets]
    worker.send("burst", [s.inputs for s in sets], key=key, layouts=layouts, order=order, record=record, queue_ns=queue_ns)
    worker.wait(frames.READY, seconds)
    start = time.perf_counter_ns()
    worker.go()
    reply = worker.wait(frames.OK, seconds)
    end = time.perf_counter_ns()
    inside, minor, major, switches, queued = reply.values[:5]
    return BurstResult(inside, end - start, minor, major, switches, queued, worker.data(reply) if record else None)


def patience(queue_ns: int) -> int:
    """How long a device shall wait before a burst, the same for both sides: twice what queueing its launches took lately.

    Measured on an H200: with a fixed wait a compiled call of 70 us looked like 95 to 180 us on a host that was slow to launch."""
    return min(MOST_QUEUE_NS, 2 * queue_ns)
