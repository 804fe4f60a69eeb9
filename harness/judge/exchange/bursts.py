"""Bursts: calls on different inputs, timed inside the worker and from outside, with every output
returned."""

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

MOST_QUEUE_NS = 20_000_000  # the limit for calls that wait for the device themselves
CHECK_CALLS = 3  # calls of a checking burst: two inputs, then the first again
# one longer checking burst: the most outputs that are held before any is compared
HELD_CALLS, HELD_BYTES = 24, 256 << 20
# less in a search: its winner is checked again, and outputs are held during timing as well
SEARCH_HELD_BYTES = 64 << 20
HELD_SECONDS = 20.0  # the most time for this burst, estimated by the reference's calls


def slots(pool: CasePool, count: int, before: Slots | None = None) -> Slots:
    """Create slots for the outputs of `count` calls. before: unneeded slots of the same worker,
    whose memory is reused."""
    if pool.shared:
        return DeviceSlots(count, pool, before if isinstance(before, DeviceSlots) else None)
    return HostSlots(count, pool, before if isinstance(before, HostSlots) else None)


def forget() -> None:
    """Release the memory of the judge's copies."""
    host_slots.forget()


def hot(
    worker: Worker, key: str, input_set: InputSet, calls: int, seconds: float, queue_ns: int
) -> tuple[float, float, float | None]:
    """Time repeated calls on one set of inputs. Returns microseconds per call with warm caches, per
    call when each is waited for, and of an exported package's choice of its kernel (None for
    others). The worker measures these itself, on inputs that it has seen before, so they are only
    shown beside the verdict. Raises what Worker.wait raises."""
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
    """Return how many outputs are held at once in the longer checking burst: fewer if they are
    large or calls are slow. most_bytes: the limit for all of them."""
    if patience_s:
        return CHECK_CALLS
    return max(
        CHECK_CALLS,
        min(HELD_CALLS, most_bytes // pool.held_bytes, int(HELD_SECONDS / max(pool.call_s, 1e-6))),
    )


def checked_bytes(pool: CasePool) -> int:
    """Return the device memory of a worker and of the judge's copies while a candidate is checked:
    a window and its outputs, both twice, and the allocations that the outputs keep."""
    beyond = pool.held_bytes - pool.slot_bytes
    return 2 * (pool.input_bytes + CHECK_CALLS * pool.slot_bytes) + CHECK_CALLS * beyond


def working_bytes(pool: CasePool) -> int:
    """Return the device memory needed besides the checking sets: by the reference while it fills a
    set (with inputs and results in double precision), or while a candidate is checked."""
    filling = 3 * pool.input_bytes + pool.precise_bytes + pool.slot_bytes
    return max(filling, checked_bytes(pool))


def group(pool: CasePool, number: int) -> Group:
    """Return the sets of the burst `number`, cyclically."""
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
    manner: str = "",
) -> BurstResult:
    """Run one burst; its outputs are then in `slots`. See Slots.run."""
    with worker.between_timings():
        return slots.run(
            worker,
            key,
            sets,
            order,
            seconds,
            record=record,
            queue_ns=queue_ns,
            manner=manner,
        )


def patience(queue_ns: int) -> int:
    """Return how long a device waits before a burst, the same for both sides: twice the time that
    queueing the launches took during warm-up.

    Measured on an H200: with a fixed wait, a compiled call of 70 us appeared as 95 to 180 us on a
    host that launched slowly."""
    return min(MOST_QUEUE_NS, 2 * queue_ns)
