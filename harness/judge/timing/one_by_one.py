"""Sides on a CPU, whose calls are handed over one by one and billed one by one."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from types import TracebackType
from typing import Any

from ...wire.layouts import Layout
from ...workers import gate
from ..errors import Interfered, WorkerDied, WorkerFailed, WorkerTimeout
from ..exchange.bills import BilledCaller, ClockedCaller
from ..exchange.calls import Caller
from ..exchange.case_pool import CasePool
from ..exchange.input_sets import Half, InputSet
from ..exchange.packets import PacketCaller
from ..processes.freezing import Turn
from ..processes.worker import Worker
from .settling import is_settled, longest_fault_ns
from .sides import WARM_BURSTS, Burst, Sides

MOST_WARM_BURSTS = 10
EMPTY_CALLS = 2  # empty calls in each measurement of them
# bytes that are cleared in some 5 us. Between two packets 2 MiB and more were (2.4x to 3.0x)
MOST_CLEARED = 1 << 17


class OneByOne(Sides):
    """Sides on a CPU. Each call is billed by the processor time of its process."""

    def __enter__(self) -> None:
        by_worker: dict[int, list[str]] = {}
        for name, worker in self.workers.items():
            by_worker.setdefault(id(worker), []).append(name)
        self._callers: dict[str, Caller] = {}
        try:
            for names in by_worker.values():
                with self.blame(names[0]), self.awake(names[0]):
                    self._callers.update(dict.fromkeys(names, self._start_caller(names)))
        except BaseException:
            self._end(well=False)
            raise

    def _start_caller(self, names: Sequence[str]) -> Caller:
        """Start the calls of one worker, which may run several baselines."""
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

    def cut_turn(
        self, name: str, sets: Sequence[InputSet], calls: int, place: Any, turn: Turn
    ) -> bool:
        made = [*[self.warm_set] * self.pool.warm_calls, *sets][:calls]
        with self._limit_time(name):
            result = self._callers[name].turn(self.keys[name], made, calls - 1, place, turn)
        self.note_calls(name, made)
        return result.intact

    def _turn(
        self, name: str, sets: Sequence[InputSet], place: Any, turn: Turn, *, unread: bool = False
    ) -> Burst:
        before = [self.warm_set] * self.pool.warm_calls
        result = self._callers[name].turn(
            self.keys[name], [*before, *sets], len(before), place, turn, unread=unread
        )
        self.note_calls(name, [*before, *sets])
        outside_ns = max(result.measured_ns, result.elapsed_ns - result.wait_ns)
        return Burst(
            result.measured_ns,
            outside_ns,
            result.minor_faults,
            0,
            result.measured_ns,
            result.unmeasured_ns,
            result.late_ns,
            result.intact,
            ready=result.ready,
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
        """End the callers, that of the baselines' process first, since this process is used again
        whatever a candidate does. well: no error so far, so errors of candidates count now."""
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
                    with self.blame(name), self.awake(name):
                        caller.end()
        finally:
            for _, caller in callers.values():
                caller.close()


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
    """Create a caller: by packets if calls are short, inputs and outputs fit into packets, the
    judge has a core for polling, and calls update nothing and need little memory besides: what a
    worker does between two packets is not timed, such as clearing a table for the next call."""
    if not one_core:
        return ClockedCaller(
            worker, pool, keys, layout, seconds, alone=alone, trusted=trusted, half=half
        )
    input_bytes, output_bytes = (
        sum(leaf.get("nbytes", 0) for leaf in each["leaves"]) for each in (layout, pool.outputs)
    )
    fits = 0 < input_bytes <= gate.PACKET_BYTES and 0 < output_bytes <= gate.PACKET_BYTES
    little = not pool.updated and pool.describe["workspace_bytes"] <= MOST_CLEARED
    packets = alone and fits and pool.short and little
    kind = PacketCaller if packets else BilledCaller
    return kind(worker, pool, keys, layout, seconds, alone=alone, trusted=trusted, half=half)
