"""Bursts of a timed block on a device that shares memory with the judge."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from types import TracebackType
from typing import Any

from ..errors import Interfered, WorkerDied, WorkerFailed, WorkerTimeout
from ..exchange import bursts, held_on_device
from ..exchange.device_slots import DeviceSlots, QueuedResult
from ..exchange.held_on_device import HeldOnDevice
from ..exchange.input_sets import InputSet
from ..figures import statistics
from ..processes.freezing import Turn
from .runners import WARM_BURSTS, Burst, Sides

# for launches to be queued: the first time; at least, afterwards
SETTLING_S, QUEUEING_S = 1.0, 0.05
# Of a queued burst: what a candidate could save of what a burst of nothing takes, from the judge's
# word to its first kernel and from its last one to its own word, besides what is measured of it;
# and what the judge hears late of one that waits for the device itself.
OPEN_NS, HEARING_NS = 8_000, 60_000
LEAST_NS = 500  # of a call: no device begins with kernels one after the other in less
# an idle device is had in 0.2 ms (H200), one on which a kernel runs when its process's share of 2
# ms is over
BUSY_NS = 1_000_000
APPEARING_NS = 100_000  # by which the time that inputs take to appear scatters, generously


class Queued(Sides):
    """On a device that shares memory with the judge: calls wait in the stream for the judge's word,
    and its clock gives the figure, less what a burst takes that calls nothing."""

    NULL_TURNS = 1  # what such a burst takes was measured before

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        # seconds in which a side has queued its launches, or never will
        self._patience: dict[str, float] = {}
        # by the number of calls of a burst that calls none: see QueuedResult
        self._nothing_ns: dict[int, tuple[int, int]] = {}
        # of a burst of nothing, where a worker waits otherwise and says early that it has done
        self._spared_ns = 0
        self._waits = False  # whether a side waits for the device itself
        self._busy = False  # whether somebody had work for the device before a burst of nothing
        # by the id of a worker: outputs of its bursts that are looked at again
        self._held: dict[int, HeldOnDevice] = {}

    def _settle(self, name: str, place: Any, turn: Turn) -> int:
        worker, slots, key = self.workers[name], self._slots(name), self.keys[name]
        with turn(worker.root):
            # what is loaded late is loaded now
            bursts.run(worker, slots, key, [self.warm], [0], self.seconds)
            self._patience[name] = SETTLING_S
            # under these parameters, and not of another baseline
            held = self._held[id(worker)] = HeldOnDevice(self.pool, looks=name in self._taken)
            for _ in range(WARM_BURSTS):
                held.tell(worker, self.seconds)
                found = slots.queued(
                    worker, key, [self.warm] * self.pool.calls, self.seconds, self._patience[name]
                )
                held.draw(slots, found.lie, self.pool.calls)
                self._patience[name] = (
                    max(QUEUEING_S, 5e-9 * found.said.queued_ns) if found.ready else QUEUEING_S
                )
        if not self._nothing_ns:
            for sets in (self.pool.timing[0].sets, *(group.sets for group in self.pool.alone[:1])):
                some = [self._nothing(sets, turn) for _ in range(self.pool.nothings)]
                before_ns, whole_ns = (
                    statistics.median(each)
                    for each in zip(*((s.before_ns, s.whole_ns) for s in some), strict=True)
                )
                self._nothing_ns[len(sets)] = round(before_ns), round(whole_ns)
            self._spared_ns = self._spared(turn)
        return self._figure(found, self.pool.calls)

    def _burst(self, name: str, sets: Sequence[InputSet], place: Any, turn: Turn) -> Burst:
        slots, worker = self._slots(name), self.workers[name]
        held = self._held[id(worker)]
        with turn(worker.root):
            held.tell(worker, self.seconds)
            found = slots.queued(worker, self.keys[name], sets, self.seconds, self._patience[name])
        slots.put(place)
        held.draw(slots, found.lie, len(sets))  # while it is stopped
        self._waits |= not found.ready
        ns, said = self._figure(found, len(sets)), found.said
        busy = found.reached_ns > BUSY_NS or self._busy
        return Burst(
            ns,
            ns,
            said.minor_faults,
            said.switches,
            said.queued_ns,
            kept=held.kept,
            said_ns=said.inside_ns,
            busy=busy,
        )

    def kept(self, name: str) -> bool:
        held = self._held[id(self.workers[name])]
        held.look()
        return held.kept

    def nothing(self, turn: Turn) -> list[tuple[int, int]]:
        calls = self.pool.calls
        open_ns = OPEN_NS + self._spared_ns + (HEARING_NS if self._waits else 0)
        return [(self._nothing(self.pool.timing[0].sets, turn).whole_ns // calls, open_ns // calls)]

    def _figure(self, found: QueuedResult, calls: int) -> int:
        """Nanoseconds of the calls. Inputs that took longer to appear than usual were perhaps seen
        by others meanwhile."""
        before_ns, whole_ns = self._nothing_ns[calls]
        late_ns = max(0, found.before_ns - before_ns - APPEARING_NS)
        return max(LEAST_NS * calls, found.whole_ns - whole_ns + late_ns)

    def _spared(self, turn: Turn) -> int:
        """Nanoseconds that a candidate spares a burst whose process waits for the judge's word as
        the driver does, and is heard before its calls have begun: the judge's copy waits for the
        device behind them."""
        sets = self.pool.timing[0].sets
        some = [self._nothing(sets, turn, early=True) for _ in range(self.pool.nothings)]
        early_ns = statistics.median([each.whole_ns for each in some])
        return max(0, round(self._nothing_ns[len(sets)][1] - early_ns))

    def _nothing(
        self, sets: Sequence[InputSet], turn: Turn, *, early: bool = False
    ) -> QueuedResult:
        """A burst that calls nothing, in the baselines' process. early: see DeviceSlots.queued."""
        name = next(filter(None, self.workers))
        worker = self.workers[name]
        with turn(worker.root):
            if id(worker) in self._held:
                self._held[id(worker)].tell(worker, self.seconds)
            slots = self._slots(name)
            found = slots.queued(worker, "", sets, self.seconds, SETTLING_S, early=early)
        self._busy |= found.reached_ns > BUSY_NS
        return found

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Nothing is held any more."""
        self._held.clear()
        for worker in {id(worker): worker for worker in self.workers.values()}.values():
            with contextlib.suppress(
                WorkerFailed, WorkerDied, WorkerTimeout, Interfered
            ):  # its next command will raise it
                held_on_device.forget(worker, self.seconds)

    def _slots(self, name: str) -> DeviceSlots:
        found = self.slots[name]
        assert isinstance(found, DeviceSlots)
        return found
