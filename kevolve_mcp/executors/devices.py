"""Which GPU an evaluation goes to, where there are several, to which of its judges, and who works
on a GPU at a time: several evaluations of a search, or one of anything else."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

from harness.types import Device, Task


@dataclass(frozen=True)
class Seat:
    """A GPU and one of its judges, which have numbers. started: whether the judge runs. calls: of
    ours that it has not answered yet; beside: of ours that the GPU's other judges have not.
    holds_task: whether it holds the task already."""

    device: Device
    started: bool = False
    calls: int = 0
    holds_task: bool = False
    beside: int = 0
    number: int = 0


# Judges of one GPU that a search keeps busy: while one times, the other builds and checks. On an
# H100 two of them take 0.67 of the time for a candidate that one takes, and four 0.64: who times
# waits for the others to pause, and they for it.
JUDGES = 2
CORES = 4  # of this machine that each of them needs: its own, one to time on, one to build
# of a GPU's memory, for all inputs and outputs of a task: each judge holds some twenty sets of them
MOST_SHARE = 1 / 64
PLACED = ("cuda",)  # families of targets of which a machine may have several devices


def placed(target: str) -> bool:
    """Whether a target's evaluations are spread over the devices that are here."""
    return target.strip().lower().partition(":")[0] in PLACED


def in_flight(task: Task, device: Device) -> int:
    """How many candidates of a search a GPU judges at once."""
    # a task of an older store knows no bytes that are held
    tensors = sum(case.bytes_held or case.bytes_min for case in task.cases)
    if tensors > MOST_SHARE * device.memory_bytes:
        return 1
    return max(1, min(JUDGES, len(os.sched_getaffinity(0)) // CORES))


def alike(devices: Sequence[Device], target: str) -> tuple[Device, ...]:
    """The GPUs that may serve a target: of its architecture, and of one model only, that of the
    first: figures of different models do not compare."""
    family, _, arch = target.strip().lower().partition(":")
    fitting = [d for d in devices if family in PLACED and arch in ("", d.arch)]
    return tuple(
        d
        for d in fitting
        if (d.name, d.arch, d.memory_bytes)
        == (fitting[0].name, fitting[0].arch, fitting[0].memory_bytes)
    )


def choose(seats: Sequence[Seat]) -> Seat:
    """The one that is free, or will be soonest: fewest calls, nobody else's programs, no timing of
    another evaluator, fewest calls to its other judges; then the one that holds the task, then one
    whose judge runs already, then the lowest index."""
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
    """A lock that many share or one has alone. Whoever waits to have it alone is the next: nobody
    begins to share it meanwhile."""

    def __init__(self) -> None:
        self._changed = asyncio.Condition()
        self._sharing = self._waiting = 0
        self._alone = False

    @property
    def free(self) -> bool:
        """Whether nobody has it or waits for it."""
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
