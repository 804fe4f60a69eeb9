"""The two sides of one timed block, and how a burst of either is run: on a CPU call by call, on a
device all calls at once. See `queued` for a device that shares memory with the judge."""

from __future__ import annotations

import contextlib
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from types import TracebackType
from typing import Any, ClassVar

from ...wire.layouts import Layout
from ...workers import gate
from ..candidate_workers import CALL_FACTOR, Deadlines
from ..errors import Interfered, WorkerDied, WorkerFailed, WorkerTimeout
from ..exchange import bursts
from ..exchange.bills import BilledCaller, ClockedCaller
from ..exchange.calls import Caller
from ..exchange.case_pool import CasePool
from ..exchange.input_sets import Half, InputSet
from ..exchange.packets import PacketCaller
from ..exchange.slots import BurstResult, Slots
from ..processes.freezing import Turn
from ..processes.worker import Worker
from ..tasks.open_task import COMPILE_SECONDS, OpenTask
from .settling import is_settled, longest_fault_ns

WARM_BURSTS, MOST_WARM_BURSTS = 2, 10
EMPTY_CALLS = 2  # calls that do nothing, each time they are made


@dataclass(frozen=True)
class Burst:
    """One burst. inside_ns: its measured calls, the figure: on a CPU what the kernel billed the
    process for, on a device by the judge's clock where memory is shared, else what the process
    itself says. outside_ns: by the judge's clock, of the same calls, or of the whole burst on a
    device that shares no memory. queued_ns: what the host took to issue them; on a CPU the same as
    inside_ns. process_clock_ns: by the process's own clock, where that is another one. busy:
    whether somebody had work for the device before it. unmeasured_ns: on a CPU what the turn took
    before its measured calls, by the same clock. intact: whether all outputs were still the same in
    the end. ready_bytes: on a CPU, of its outputs, where they may have been before."""

    inside_ns: int
    outside_ns: int
    minor_faults: int
    switches: int
    queued_ns: int
    unmeasured_ns: int = 0
    intact: bool = True
    process_clock_ns: int = 0
    busy: bool = False
    ready_bytes: int = 0


class Sides(ABC):
    """A candidate's worker ("") and the baselines (by name) on one case; a context in which bursts
    are run. half: of the block, the first one until it is set. one_core: both sides are pinned to
    the timing core, and run there with one thread."""

    NULL_TURNS: ClassVar[int] = 16  # in each half of a block, of calls that do nothing

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
        # a context for what a side says when bursts begin and end: its errors are its own
        self.blame: Callable[[str], AbstractContextManager[None]] = lambda name: nullcontext()

    @property
    def warm_set(self) -> InputSet:
        """For calls which are not measured; see Half."""
        return self.half.warm_set

    def join(self, name: str, worker: Worker, slots: Slots) -> None:
        """One more candidate, beside the one whose name is ""."""
        self.workers[name], self.slots[name], self.keys[name] = worker, slots, self.pool.name
        self._seconds_taken[name] = 0.0

    def settle(self, name: str, place: Any, turn: Turn) -> int:
        """Until the allocator has settled: a fresh heap grows for several bursts, and its page
        faults would count as the kernel's. The nanoseconds of the last burst."""
        with self._limit_time(name):
            return self._settle(name, place, turn)

    def burst(self, name: str, sets: Sequence[InputSet], place: Any, turn: Turn) -> Burst:
        """A burst on these sets, after calls that are not measured; a slot for each call lies in
        `place` then."""
        with self._limit_time(name):
            return self._burst(name, sets, place, turn)

    def outputs_are_intact(self, name: str) -> bool:
        """Whether outputs of earlier bursts that a side still holds are what they were."""
        return True

    @contextlib.contextmanager
    def _limit_time(self, name: str) -> Iterator[None]:
        """Raises WorkerTimeout where a candidate has taken what a block may take, builds apart."""
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
                f"that they may take together. That is some {CALL_FACTOR:.0f} times what the "
                "strongest baseline takes, or 20 s; what it does between calls counts, "
                "waiting included. Do in a call what the call needs, and everything else once, "
                "when the module is loaded"
            )

    def compile(self, name: str) -> None:
        """One call of a baseline that nobody looks at."""
        bursts.run(
            self.workers[name],
            self.slots[name],
            self.keys[name],
            [self.warm_set],
            [0],
            COMPILE_SECONDS,
        )

    @abstractmethod
    def _settle(self, name: str, place: Any, turn: Turn) -> int:
        """See settle."""

    @abstractmethod
    def _burst(self, name: str, sets: Sequence[InputSet], place: Any, turn: Turn) -> Burst:
        """See burst."""

    def time_empty_calls(self, turn: Turn) -> list[tuple[int, int]]:
        """Calls that do nothing, in the baselines' process, made NULL_TURNS times in each half of a
        block: nanoseconds by the bill, and inside the worker."""
        return []

    def hot(self, name: str) -> tuple[float, float, float | None]:
        """Microseconds: see bursts.hot. The worker's own claim."""
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
        """Bursts begin."""

    def __exit__(  # noqa: B027
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """No further burst."""


class OneByOne(Sides):
    """On a CPU. Each call is billed by what its process has run."""

    def __enter__(self) -> None:
        by_worker: dict[int, list[str]] = {}
        for name, worker in self.workers.items():
            by_worker.setdefault(id(worker), []).append(name)
        self._callers: dict[str, Caller] = {}
        try:
            for names in by_worker.values():
                with self.blame(names[0]):
                    self._callers.update(dict.fromkeys(names, self._start_caller(names)))
        except BaseException:
            self._end(well=False)
            raise

    def _start_caller(self, names: Sequence[str]) -> Caller:
        """Calls of one worker, which may be several baselines."""
        return _make_caller(
            self.workers[names[0]],
            self.pool,
            [self.keys[name] for name in names],
            self.pool.timing[0].sets[0].layout,
            self.seconds,
            alone=self.has_spare_core,
            one_core=self.one_core,
            trusted=names[0] not in self._seconds_taken,
            half=self.half,
        )

    def _settle(self, name: str, place: Any, turn: Turn) -> int:
        for number in range(MOST_WARM_BURSTS):
            result = self._turn(name, [self.warm_set] * self.pool.calls, place, turn, unread=True)
            if number + 1 >= WARM_BURSTS and is_settled(
                result.minor_faults, result.inside_ns, longest_fault_ns()
            ):
                break
        return result.inside_ns

    def _burst(self, name: str, sets: Sequence[InputSet], place: Any, turn: Turn) -> Burst:
        return self._turn(name, sets, place, turn)

    def _turn(
        self, name: str, sets: Sequence[InputSet], place: Any, turn: Turn, *, unread: bool = False
    ) -> Burst:
        before = [self.warm_set] * self.pool.warm_calls
        result = self._callers[name].turn(
            self.keys[name], [*before, *sets], len(before), place, turn, unread=unread
        )
        outside_ns = max(result.measured_ns, result.elapsed_ns - result.wait_ns)
        return Burst(
            result.measured_ns,
            outside_ns,
            result.minor_faults,
            0,
            result.measured_ns,
            result.unmeasured_ns,
            result.intact,
            ready_bytes=result.ready_bytes,
        )

    def outputs_are_intact(self, name: str) -> bool:
        return self._callers[name].reservoir_is_intact()

    def time_empty_calls(self, turn: Turn) -> list[tuple[int, int]]:
        return next(c for name, c in self._callers.items() if name).time_empty_calls(
            EMPTY_CALLS, turn
        )

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end(well=error is None)

    def _end(self, *, well: bool) -> None:
        """First that of the baselines' process, which is used again, whatever a candidate's has
        done. well: nothing was wrong so far, so that what candidates say now counts."""
        callers = {id(c): (name, c) for name, c in self._callers.items()}
        try:
            for name, caller in callers.values():
                if name not in self._seconds_taken:
                    with contextlib.suppress(
                        WorkerFailed, WorkerDied, WorkerTimeout, Interfered
                    ):  # its next command will raise it
                        caller.end()
            for name, caller in callers.values():
                if well and name in self._seconds_taken:
                    with self.blame(name):
                        caller.end()
        finally:
            for _, caller in callers.values():
                caller.close()


class InBursts(Sides):
    """On a device, whose calls of a burst are queued together; the process says how long they
    took."""

    def _settle(self, name: str, place: Any, turn: Turn) -> int:
        for _ in range(WARM_BURSTS):
            with turn(self.workers[name].root):
                result = self._run(name, [self.warm_set], [0] * self.pool.calls)
        # one for all bursts of the block: it lies inside the judge's clock
        self.queue_ns = max(self.queue_ns, result.queued_ns)
        return result.inside_ns

    def _burst(self, name: str, sets: Sequence[InputSet], place: Any, turn: Turn) -> Burst:
        with turn(self.workers[name].root):
            result = self._run(name, sets, list(range(len(sets))), bursts.patience(self.queue_ns))
        self.slots[name].put(place)
        return Burst(
            result.inside_ns,
            result.outside_ns,
            result.minor_faults,
            result.switches,
            result.queued_ns,
        )

    def _run(
        self, name: str, sets: Sequence[InputSet], order: list[int], queue_ns: int = 0
    ) -> BurstResult:
        return bursts.run(
            self.workers[name],
            self.slots[name],
            self.keys[name],
            sets,
            order,
            self.seconds,
            queue_ns=queue_ns,
        )


def _make_caller(
    worker: Worker,
    pool: CasePool,
    keys: Sequence[str],
    layout: Layout,
    seconds: float,
    *,
    alone: bool,
    one_core: bool,
    trusted: bool,
    half: Half,
) -> Caller:
    """By packet where calls are short, inputs and outputs fit into one, and the judge has a core to
    look for it."""
    if not one_core:
        return ClockedCaller(
            worker, pool, keys, layout, seconds, alone=alone, trusted=trusted, half=half
        )
    input_bytes, output_bytes = (
        sum(leaf.get("nbytes", 0) for leaf in each["leaves"]) for each in (layout, pool.outputs)
    )
    fits = 0 < input_bytes <= gate.PACKET_BYTES and 0 < output_bytes <= gate.PACKET_BYTES
    kind = PacketCaller if alone and fits and pool.short else BilledCaller
    return kind(worker, pool, keys, layout, seconds, alone=alone, trusted=trusted, half=half)
