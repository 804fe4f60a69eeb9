"""Bursts of a timed block on a device that shares memory with the judge."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from types import TracebackType
from typing import Any

from ..errors import Interfered, WorkerDied, WorkerFailed, WorkerTimeout
from ..exchange import bursts, device_reservoir, device_witness
from ..exchange.device_reservoir import DeviceReservoir
from ..exchange.device_slots import DeviceSlots, QueuedResult
from ..exchange.input_sets import InputSet
from ..exchange.ready_memory import ReadyBytes
from ..figures import statistics
from ..figures.block import BUSY_SHARE
from ..processes.freezing import Turn
from .burst_means import BurstMeans
from .sides import WARM_BURSTS, Burst, Sides

# time for queueing the launches: at first, and at least afterwards
SETTLING_S, QUEUEING_S = 1.0, 0.05
# What a candidate could save of an empty burst's time besides the measured part (from the judge's
# word to its first kernel, and from its last kernel to its own word); and the delay until the judge
# notices the end of a burst that waits for the device itself.
OPEN_NS, HEARING_NS = 8_000, 60_000
LEAST_BESIDE_NS = 50_000  # in a burst: what a baseline's witness sees by chance is less
CHANGES_INPUTS = (
    "it changed inputs of timed calls, or its outputs lie in their memory. Write results to memory "
    "of its own"
)
# least time of a call: no device starts consecutive kernels faster; and of one that is a burst by
# itself, of which the empty burst's own kernel is subtracted (one of 2 us was shown as 0.5 us)
LEAST_NS, LEAST_ALONE_NS = 500, 2_000
APPEARING_NS = 100_000  # generous scatter of the time that inputs take to appear


class Queued(Sides):
    """Sides on a device that shares memory with the judge: calls wait in the stream for the judge's
    word, and its clock gives the figure, less the time of an empty burst."""

    NULL_TURNS = 1  # the time of an empty burst is measured in `settle`

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        # seconds within which a side queues its launches, or never will
        self._patience: dict[str, float] = {}
        # (before_ns, whole_ns, queueing_ns) of an empty burst, by the number of calls it stands for
        self._empty_ns: dict[int, tuple[int, int, int]] = {}
        # see _early_gain: of a burst, and of a call alone
        self._early_gain_ns = self._alone_saved_ns = 0
        self._unseen = BurstMeans()  # of candidates, see Witness
        self._queueing = BurstMeans()  # of all sides, beyond an empty burst's
        self._waits = False  # whether a side waits for the device itself
        # for each empty burst, whether the device worked for another process beside it
        self._empty_busy: list[bool] = []
        # by the id of a worker: outputs of its bursts that are checked again
        self._reservoirs: dict[int, DeviceReservoir] = {}

    def _settle(self, name: str, place: Any, turn: Turn) -> int:
        worker, slots, key = self.workers[name], self._slots(name), self.keys[name]
        with turn(worker.root):
            # load now the kernels that are loaded at first use
            bursts.run(worker, slots, key, [self.warm_set], [0], self.seconds)
            self.note_calls(name, [self.warm_set])
            device_reservoir.forget(worker, self.seconds)
            self._patience[name] = SETTLING_S
            # a new one for these parameters and this baseline
            reservoir = self._reservoirs[id(worker)] = DeviceReservoir(
                self.pool, looks=name in self._seconds_taken
            )
            for _ in range(WARM_BURSTS):
                reservoir.announce(worker, self.seconds)
                # without a witness, since the judge may have to load kernels for its own copies
                result = slots.run_queued(
                    worker,
                    key,
                    [self.warm_set] * self.pool.calls,
                    self.seconds,
                    self._patience[name],
                    witness=None,
                )
                self.note_calls(name, [self.warm_set] * self.pool.calls)
                slots.reorder()
                reservoir.draw(slots, result.places, self.pool.calls)
                reservoir.change(result.places, [self.warm_set] * self.pool.calls)
                if name in self._seconds_taken and not slots.inputs_are_intact():
                    raise Interfered(CHANGES_INPUTS)
                queued_s = 1e-9 * result.worker_result.queued_ns if result.ready else 0.0
                # the worker's own report, which may be anything
                self._patience[name] = min(SETTLING_S, max(QUEUEING_S, 5 * queued_s))
        if not self._empty_ns:
            whole, alone = (
                self.pool.timing[0].sets,
                [group.sets for group in self.pool.single_call_groups[:1]],
            )
            for sets in (whole, *alone):
                self._run_empty(sets, turn, watched=False)
                results = [self._run_empty(sets, turn) for _ in range(self.pool.empty_bursts)]
                self._empty_ns[len(sets)] = (
                    round(statistics.median([each.before_ns for each in results])),
                    round(statistics.median([each.whole_ns for each in results])),
                    round(statistics.median([each.queueing_ns for each in results])),
                )
            self._early_gain_ns = self._early_gain(whole, turn)
            self._alone_saved_ns = max([self._early_gain(sets, turn) for sets in alone], default=0)
        return self._figure(result, self.pool.calls)

    def _burst(self, name: str, sets: Sequence[InputSet], place: Any, turn: Turn) -> Burst:
        slots, worker = self._slots(name), self.workers[name]
        reservoir = self._reservoirs[id(worker)]
        is_candidate = name in self._seconds_taken
        with device_witness.watching() as witness:
            with turn(worker.root):
                reservoir.announce(worker, self.seconds)
                result = slots.run_queued(
                    worker,
                    self.keys[name],
                    sets,
                    self.seconds,
                    self._patience[name],
                    witness=witness,
                    also=self.also.pop(name, None),
                    look=self.watches.get(name),
                )
            witness.finish(late=is_candidate)  # it is stopped, but the device may have work of it
            slots.reorder()
            slots.put(place)
            reservoir.look(result.places)
            reservoir.draw(slots, result.places, len(sets))
            reservoir.change(result.places, sets)
            if is_candidate and not slots.inputs_are_intact():  # with all outputs changed, too
                raise Interfered(CHANGES_INPUTS)
            if is_candidate:  # its streams may have waited for such a change
                witness.start()
                witness.finish(late=True)
        self.note_calls(name, sets)
        self._waits |= not result.ready
        self._queueing.add(name, len(sets), result.queueing_ns - self._empty_ns[len(sets)][2])
        ns, claim = self._figure(result, len(sets)), result.worker_result
        busy = sum(self._empty_busy) > BUSY_SHARE * len(self._empty_busy)
        if is_candidate:
            ns += witness.beside_ns
            self._unseen.add(name, len(sets), witness.unseen_ns)
        else:  # the candidate's work, or that of another program
            busy |= witness.beside_ns + witness.held_ns > LEAST_BESIDE_NS
        return Burst(
            ns,
            ns,
            claim.minor_faults,
            claim.switches,
            claim.queued_ns,
            intact=reservoir.intact,
            process_clock_ns=claim.inside_ns,
            busy=busy,
            waits=not result.ready,
            # before the judge's word, which only one of its streams waits for
            ready=ReadyBytes(early=len(sets) * self.pool.slot_bytes),
        )

    def outputs_are_intact(self, name: str) -> bool:
        reservoir = self._reservoirs[id(self.workers[name])]
        reservoir.compare_all()
        return reservoir.intact

    def time_empty_calls(self, turn: Turn) -> list[tuple[int, int]]:
        calls = self.pool.calls
        open_ns = OPEN_NS + self._early_gain_ns + (HEARING_NS if self._waits else 0)
        return [
            (self._run_empty(self.pool.timing[0].sets, turn).whole_ns // calls, open_ns // calls)
        ]

    @property
    def alone_saved_ns(self) -> int:
        return self._alone_saved_ns

    def is_idle(self) -> bool:
        with device_witness.watching() as witness:
            witness.finish(late=True)
        return witness.beside_ns + witness.held_ns < LEAST_BESIDE_NS

    def unseen_us(self, name: str) -> float:
        return self._unseen.call_us(name, self.pool.calls)

    def alone_unseen_us(self, name: str) -> float:
        return self._unseen.call_us(name, 1)

    def host_us(self, name: str) -> float:
        return self._queueing.but_one_us(name, self.pool.calls)

    def alone_host_us(self, name: str) -> float:
        return self._queueing.but_one_us(name, 1)

    def _figure(self, result: QueuedResult, calls: int) -> int:
        """Return the nanoseconds of the calls. Time that inputs took to appear beyond the usual is
        added, since the worker may have seen them meanwhile."""
        before_ns, whole_ns, _ = self._empty_ns[calls]
        late_ns = max(0, result.before_ns - before_ns - APPEARING_NS)
        least_ns = LEAST_ALONE_NS if self.pool.calls == 1 else LEAST_NS * calls
        return max(least_ns, result.whole_ns - whole_ns + late_ns)

    def _early_gain(self, sets: Sequence[InputSet], turn: Turn) -> int:
        """Return the nanoseconds that a candidate gains if its process writes its own word before
        its calls on these sets: the judge's copy then already waits for the device behind the
        calls."""
        results = [self._run_empty(sets, turn, early=True) for _ in range(self.pool.empty_bursts)]
        early_ns = statistics.median([each.whole_ns for each in results])
        return max(0, round(self._empty_ns[len(sets)][1] - early_ns))

    def _run_empty(
        self, sets: Sequence[InputSet], turn: Turn, *, early: bool = False, watched: bool = True
    ) -> QueuedResult:
        """Run an empty burst in the baselines' process. early: see DeviceSlots.run_queued. watched:
        with a witness."""
        name = next(filter(None, self.workers))
        worker = self.workers[name]
        watch = device_witness.watching() if watched else contextlib.nullcontext()
        with watch as witness, turn(worker.root):
            if id(worker) in self._reservoirs:
                self._reservoirs[id(worker)].announce(worker, self.seconds)
            slots = self._slots(name)
            result = slots.run_queued(
                worker,
                "",
                sets,
                self.seconds,
                SETTLING_S,
                witness=witness,
                early=early,
            )
        if witness is not None:
            self._empty_busy.append(witness.beside_ns + witness.held_ns > LEAST_BESIDE_NS)
        return result

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Release all kept outputs."""
        self._reservoirs.clear()
        names = {id(worker): name for name, worker in self.workers.items()}
        for name in names.values():
            with (
                contextlib.suppress(
                    WorkerFailed, WorkerDied, WorkerTimeout, Interfered
                ),  # its next command will raise it
                self.awake(name),
            ):
                device_reservoir.forget(self.workers[name], self.seconds)

    def _slots(self, name: str) -> DeviceSlots:
        result = self.slots[name]
        assert isinstance(result, DeviceSlots)
        return result
