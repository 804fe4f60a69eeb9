"""One burst: calls on different inputs, timed inside the worker and from outside, with every output
handed back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..processes.worker import Worker
from . import device_link, host_slots
from .case_pool import CasePool
from .device_slots import DeviceSlots
from .host_slots import HostSlots
from .input_sets import Group, InputSet
from .slots import BurstResult, Slots

MOST_QUEUE_NS = 20_000_000  # for calls that wait for the device themselves
CHECK_CALLS = 3  # calls of a checking burst: two inputs, then the first again
# of one longer checking burst: outputs that are held before any is looked at
HELD_CALLS, HELD_BYTES = 24, 256 << 20
# in a search, whose winner is checked again and whose timed outputs are held as well
SEARCH_HELD_BYTES = 64 << 20
HELD_SECONDS = 20.0  # that it may take, by the reference's calls


def slots(pool: CasePool, count: int, before: Slots | None = None) -> Slots:
    """Room for the outputs of so many calls. before: other slots of the same worker that nobody
    needs any more."""
    if pool.shared:
        return DeviceSlots(count, pool, before if isinstance(before, DeviceSlots) else None)
    return HostSlots(count, pool, before if isinstance(before, HostSlots) else None)


def forget() -> None:
    """Give the memory of the judge's copies back."""
    host_slots.forget()


def hot(
    worker: Worker, key: str, input_set: InputSet, calls: int, seconds: float, queue_ns: int
) -> tuple[float, float, float | None]:
    """Microseconds a call on one set of inputs over and over: with warm caches, as a caller sees it
    who waits for each call, and what an exported package takes to decide where the call goes (None
    for what decides nothing). The worker's own claim, on inputs that it has seen before: shown
    beside the verdict, never judged. Raises what Worker.wait raises."""
    arguments: dict[str, Any] = {
        "key": key,
        "calls": calls,
        "queue_ns": queue_ns,
        "layout": input_set.layout,
    }
    if input_set.file.bytes is not None:
        base = device_link.link(worker).show(input_set)
        reply = worker.ask("hot", seconds=seconds, base=base, **arguments)
    else:
        reply = worker.ask(
            "hot",
            worker.private_copies(input_set.file.fd),
            seconds=seconds,
            base=input_set.base,
            **arguments,
        )
    warm, waited, deciding = (ns / 1e3 / calls for ns in reply.values[:3])
    return warm, waited, deciding or None


def retained_calls(pool: CasePool, patience_s: float, most_bytes: int = HELD_BYTES) -> int:
    """How many outputs are held at once in the longer checking burst; fewer where they are large,
    or a call takes long. most_bytes: of all of them."""
    if patience_s:
        return CHECK_CALLS
    return max(
        CHECK_CALLS,
        min(HELD_CALLS, most_bytes // pool.held_bytes, int(HELD_SECONDS / max(pool.call_s, 1e-6))),
    )


def checked_bytes(pool: CasePool) -> int:
    """What a worker and the judge's copies hold of a device while a candidate is checked: a window
    and its outputs, twice, and what hangs on these."""
    beyond = pool.held_bytes - pool.slot_bytes
    return 2 * (pool.input_bytes + CHECK_CALLS * pool.slot_bytes) + CHECK_CALLS * beyond


def working_bytes(pool: CasePool) -> int:
    """What is held of a device beside the checking sets: by the reference while it fills a set
    (inputs and results in double precision, too), or while a candidate is checked."""
    filling = 3 * pool.input_bytes + pool.precise_bytes + pool.slot_bytes
    return max(filling, checked_bytes(pool))


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
    """One burst; its outputs are in `slots` afterwards. See Slots.run."""
    with worker.between_timings():
        return slots.run(worker, key, sets, order, seconds, record=record, queue_ns=queue_ns)


def patience(queue_ns: int) -> int:
    """How long a device shall wait before a burst, the same for both sides: twice what queueing its
    launches took when it was warmed up.

    Measured on an H200: with a fixed wait a compiled call of 70 us looked like 95 to 180 us on a
    host that was slow to launch."""
    return min(MOST_QUEUE_NS, 2 * queue_ns)
