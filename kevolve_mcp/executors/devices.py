"""Which GPU and which of its judges an evaluation goes to, and what may run on a GPU at the same
time: several evaluations of a search, or a single other call."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

from harness.types import Device, Task


@dataclass(frozen=True)
class Seat:
    """A GPU and the number of one of its judges. started: whether the judge runs. calls: our calls
    that it has not answered yet; beside: those of the GPU's other judges. holds_task: whether it
    already has the task."""

    device: Device
    started: bool = False
    calls: int = 0
    holds_task: bool = False
    beside: int = 0
    number: int = 0


# Judges of one GPU that a search keeps busy: while one times, the other builds and checks. On an
# H100 two of them need 0.67 of the time per candidate that one needs, and four 0.64: the one that
# times waits for the others to pause, and they wait for it.
JUDGES = 2
CORES = 4  # cores that each of them needs: its own, one to time on, one to build
# share of a GPU's memory for the inputs and outputs of a task: a judge holds some twenty sets
MOST_SHARE = 1 / 64
PLACED = ("cuda",)  # target families of which a machine may have several devices


def placed(target: str) -> bool:
    """Return whether a target's evaluations are spread over this machine's devices."""
    return target.strip().lower().partition(":")[0] in PLACED


def in_flight(task: Task, device: Device) -> int:
    """Return how many candidates of a search a GPU judges at once."""
    # a task from an older store does not know the bytes it needs
    tensors = sum(case.bytes_held or case.bytes_min for case in task.cases)
    if tensors > MOST_SHARE * device.memory_bytes:
        return 1
    return max(1, min(JUDGES, len(os.sched_getaffinity(0)) // CORES))


def alike(devices: Sequence[Device], target: str) -> tuple[Device, ...]:
    """Return the GPUs that may serve a target: of its architecture, and of the first one's model
    only, since figures of different models are not comparable."""
    family, _, arch = target.strip().lower().partition(":")
    fitting = [d for d in devices if family in PLACED and arch in ("", d.arch)]
    return tuple(
        d
        for d in fitting
        if (d.name, d.arch, d.memory_bytes)
        == (fitting[0].name, fitting[0].arch, fitting[0].memory_bytes)
    )


def choose(seats: Sequence[Seat]) -> Seat:
    """Return the seat that is free, or probably soonest: fewest calls, no other programs, no timing
    by another evaluator, fewest calls to its other judges; then one that has the task, then one
    whose judge runs, then the lowest index."""
    return min(
        seats,
        key=lambda s: (
            s.calls + 2 * bool(s.device.users) + _timed_by_others(s),
            s.beside,
            not s.holds_task,
            not s.started,
            s.device.index,
            s.number,
        ),
    )


def _timed_by_others(seat: Seat) -> int:
    return int(seat.device.measuring and not seat.calls + seat.beside)


class Turns:
    """A shared or exclusive lock. A waiting exclusive holder comes next: no new sharer is admitted
    before it."""

    def __init__(self) -> None:
        self._changed = asyncio.Condition()
        self._sharing = self._waiting = 0
        self._alone = False

    @property
    def free(self) -> bool:
        """Return whether nobody holds it or waits for it."""
        return not (self._sharing or self._waiting or self._alone)

    @contextlib.asynccontextmanager
    async def share(self) -> AsyncIterator[None]:
        async with self._changed:
            await self._changed.wait_for(lambda: not (self._alone or self._waiting))
            self._sharing += 1
        try:
            yield
        finally:
            self._sharing -= 1
            await self._tell()

    @contextlib.asynccontextmanager
    async def alone(self) -> AsyncIterator[None]:
        async with self._changed:
            self._waiting += 1
            try:
                await self._changed.wait_for(lambda: not (self._alone or self._sharing))
                self._alone = True
            finally:
                self._waiting -= 1
                self._changed.notify_all()
        try:
            yield
        finally:
            self._alone = False
            await self._tell()

    async def _tell(self) -> None:
        async with self._changed:
            self._changed.notify_all()
