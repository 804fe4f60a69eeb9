"""The sides of one timed block: what they all can do, whichever way their calls are timed."""

from __future__ import annotations

import contextlib
import os
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from types import TracebackType
from typing import Any, ClassVar

from ..candidate_workers import CALL_FACTOR, Deadlines
from ..errors import WorkerTimeout
from ..exchange import bursts
from ..exchange.case_pool import CasePool
from ..exchange.device_copies import Copies
from ..exchange.input_sets import InputSet
from ..exchange.ready_memory import NOTHING_READY, ReadyBytes
from ..exchange.slots import Slots
from ..processes.freezing import Turn
from ..processes.worker import Worker
from ..tasks.open_task import COMPILE_SECONDS, OpenTask

WARM_BURSTS = 2  # least number of bursts before the rounds


@dataclass(frozen=True)
class Burst:
    """One burst.

    inside_ns: the figure of its measured calls: on a CPU the process's bill, on a device the
    judge's clock if memory is shared, otherwise the process's own time. outside_ns: by the judge's
    clock, for the same calls, or for the whole burst on a device without shared memory. queued_ns:
    the host's time to issue the calls; on a CPU equal to inside_ns. process_clock_ns: by the
    process's own clock, if that is a different one. busy: whether the device was busy before the
    burst. unmeasured_ns: on a CPU the turn's time before its measured calls, by the same clock.
    late_ns: on a CPU the processor time after them that is not in the figure.
    intact: whether all outputs were unchanged at the end. waits: whether its calls waited for a
    device themselves, so that their launches were not queued before the start. ready: bytes of
    outputs that may have been written before their call.
    """

    inside_ns: int
    outside_ns: int
    minor_faults: int
    switches: int
    queued_ns: int
    unmeasured_ns: int = 0
    late_ns: int = 0
    intact: bool = True
    process_clock_ns: int = 0
    busy: bool = False
    ready: ReadyBytes = NOTHING_READY
    waits: bool = False


class Sides(ABC):
    """A candidate's worker ("") and the baselines (by name) on one case; bursts are run inside its
    context. half: the present half of the block, initially the first. one_core: both sides are
    pinned to the timing core and run with one thread."""

    NULL_TURNS: ClassVar[int] = 16  # measurements of empty calls in each half of a block

    def __init__(
        self,
        task: OpenTask,
        pool: CasePool,
        worker: Worker,
        slots: Slots,
        baselines: list[str],
        deadlines: Deadlines,
        *,
        one_core: bool = True,
    ) -> None:
        self.pool, self.half, self.one_core = pool, pool.halves[0], one_core
        self.seconds, self._deadlines = deadlines.turn, deadlines
        self._seconds_taken = {"": 0.0}  # seconds of the block, by candidate
        self.has_spare_core = one_core and not set(os.sched_getaffinity(0)) <= set(task.timing_cpus)
        self.workers = {"": worker, **dict.fromkeys(baselines, task.baseline_worker)}
        self.slots = {"": slots, **dict.fromkeys(baselines, task.slots[f"{pool.name}/baselines"])}
        self.keys = {"": pool.name, **{name: f"{pool.name}/{name}" for name in baselines}}
        self.queue_ns = 0
        # by candidate: the inputs of its calls, in order; for the caller, which empties it
        self.calls_made: dict[str, list[InputSet]] = {}
        self.call_counts: Counter[str] = Counter()  # of all sides, also for the caller to empty
        # by candidate: what a device copies behind the outputs of its next burst
        self.also: dict[str, Copies] = {}
        # by candidate: called while its next bursts are queued on a device
        self.watches: dict[str, Callable[[], None]] = {}
        # a context that attributes a side's errors when bursts begin and end
        self.blame: Callable[[str], AbstractContextManager[None]] = lambda name: nullcontext()
        # a context in which a side runs that is stopped even before and after the turns of a half
        self.awake: Callable[[str], AbstractContextManager[None]] = lambda name: nullcontext()

    @property
    def warm_set(self) -> InputSet:
        """The inputs for unmeasured calls; see Half."""
        return self.half.warm_set

    def join(self, name: str, worker: Worker, slots: Slots) -> None:
        """Add one more candidate besides the one named ""."""
        self.workers[name], self.slots[name], self.keys[name] = worker, slots, self.pool.name
        self._seconds_taken[name] = 0.0

    def settle(self, name: str, place: Any, turn: Turn) -> int:
        """Run bursts until the allocator has settled: a new heap grows for several bursts, and its
        page faults would count as the kernel's. Returns the nanoseconds of the last burst."""
        with self._limit_time(name):
            return self._settle(name, place, turn)

    def burst(self, name: str, sets: Sequence[InputSet], place: Any, turn: Turn) -> Burst:
        """Run a burst on these sets, after unmeasured calls. `place` then holds a slot for each
        call."""
        with self._limit_time(name):
            return self._burst(name, sets, place, turn)

    def cut_turn(
        self, name: str, sets: Sequence[InputSet], calls: int, place: Any, turn: Turn
    ) -> bool:
        """Make the first calls of a burst on these sets, unmeasured ones included, so many that it
        ends early, and return whether outputs that were held were unchanged. Nothing where calls
        are not made one by one."""
        return True

    def outputs_are_intact(self, name: str) -> bool:
        """Return whether the outputs of earlier bursts that a side still holds are unchanged."""
        return True

    @contextlib.contextmanager
    def _limit_time(self, name: str) -> Iterator[None]:
        """Raise WorkerTimeout if a candidate exceeds its time in a block, not counting builds."""
        worker = self.workers[name]
        began, built_s = time.monotonic(), worker.build_seconds
        yield
        if name not in self._seconds_taken:
            return
        self._seconds_taken[name] += time.monotonic() - began - (worker.build_seconds - built_s)
        if self._seconds_taken[name] > self._deadlines.block:
            worker.kill()
            raise WorkerTimeout(
                f"its turns in one timed block took more than the {self._deadlines.block:.0f} s "
                f"allowed for them together. That is about {CALL_FACTOR:.0f} times the time of the "
                "strongest baseline, or 20 s; work between calls counts, waiting included. Do in a "
                "call what the call needs, and everything else once, when the module is loaded"
            )

    def note_calls(self, name: str, sets: Sequence[InputSet]) -> None:
        """Count calls that a side has made, and note their inputs if it is a candidate."""
        self.call_counts[name] += len(sets)
        if name in self._seconds_taken:
            self.calls_made.setdefault(name, []).extend(sets)

    def compile(self, name: str) -> None:
        """Make one call of a baseline and ignore its outputs."""
        bursts.run(
            self.workers[name],
            self.slots[name],
            self.keys[name],
            [self.warm_set],
            [0],
            COMPILE_SECONDS,
        )

    def call_once(self, name: str) -> None:
        """Make one call of a side that is not in a turn, and ignore its outputs."""
        bursts.run(
            self.workers[name],
            self.slots[name],
            self.keys[name],
            [self.warm_set],
            [0],
            self.seconds,
        )
        self.note_calls(name, [self.warm_set])

    @abstractmethod
    def _settle(self, name: str, place: Any, turn: Turn) -> int:
        """See settle."""

    @abstractmethod
    def _burst(self, name: str, sets: Sequence[InputSet], place: Any, turn: Turn) -> Burst:
        """See burst."""

    def time_empty_calls(self, turn: Turn) -> list[tuple[int, int]]:
        """Time empty calls in the baselines' process, NULL_TURNS times in each half of a block.
        Returns nanoseconds by the bill, and the part that a candidate could save."""
        return []

    @property
    def alone_saved_ns(self) -> int:
        """What a candidate could save of a call alone that its calls in a burst do not show."""
        return 0

    def is_idle(self) -> bool:
        """Return whether a device does no work for anybody, while all processes stand still."""
        return True

    def unseen_us(self, name: str) -> float:
        """Return what a call of a candidate may have saved by work that nobody can tell."""
        return 0.0

    def alone_unseen_us(self, name: str) -> float:
        """Return the same of a device's call alone."""
        return 0.0

    def host_us(self, name: str) -> float:
        """Return what a side's process takes on the host to queue a call on a device, by the
        judge's clock, where the figure does not include it."""
        return 0.0

    def alone_host_us(self, name: str) -> float:
        """Return the same of a call alone."""
        return 0.0

    def hot(self, name: str) -> tuple[float, float, float | None]:
        """Return the microseconds of bursts.hot, which the worker measures itself."""
        input_set = self.pool.timing[0].sets[0]
        return bursts.hot(
            self.workers[name],
            self.keys[name],
            input_set,
            self.pool.calls,
            self.seconds,
            bursts.patience(self.queue_ns),
        )

    def __enter__(self) -> None:  # noqa: B027
        """Prepare for bursts."""

    def __exit__(  # noqa: B027
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the bursts."""
