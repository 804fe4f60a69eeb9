"""Calls on a CPU one by one, each timed from outside: the common part of `bills` and `packets`.

The worker's own statements about time do not count, and nothing is deducted. No other process can
work for it: a timed worker cannot leave its core, starts no process, and is stopped outside its
turns.
"""

from __future__ import annotations

import contextlib
import errno
import os
import random
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ...wire import frames, memory_files
from ...wire.layouts import Layout
from ...workers import gate
from ..errors import WorkerFailed, WorkerTimeout
from ..processes.freezing import Turn, is_gone
from ..processes.worker import Worker
from . import output_changes
from .case_pool import CasePool
from .input_sets import Half, InputSet
from .output_reservoir import OutputReservoir
from .process_bill import ProcessBill
from .ready_memory import NOTHING_READY, ReadyBytes
from .worker_outputs import OutputCopy, OutputPlace, WorkerOutputs, interference

SPINS = 1000  # polls between two checks of other conditions: about 50 us
SLEEP_S = 20e-6  # between two polls where the worker needs the judge's core
# the processor time that the threads of an honest process take to stop
STOPPED_NS = 200_000
# the same for a process that sleeps when it is stopped: 10 to 40 us on a virtual machine. Time that
# it runs beyond this between its bill and the stop is billed as well
STOPPING_NS = 40_000
# Before the first call, a worker's heap gets pages for this multiple of the outputs that are held
# at once, within these limits in bytes. With results of 8 and 16 MiB, 9 of 96 measured bursts took
# fresh pages with twice as much, none of 96 with three times as much; without this one in three
# did, and such a call took two to four times as long.
TOUCHED_TIMES, LEAST_TOUCHED, MOST_TOUCHED = 3, 1 << 12, 1 << 30


@dataclass(frozen=True)
class TurnResult:
    """The measured calls of one turn, all together.

    measured_ns: the figure. elapsed_ns: by the judge's clock, from before a call's inputs are
    visible until its outputs are reported. unmeasured_ns: the turn's time before the measured
    calls, by the same clock as the figure. late_ns: the processor time of a worker that polls while
    it is stopped, beyond what stopping takes; the bill of others has it. wait_ns: the time that the
    worker or the judge waited for a core during and between the calls. intact: whether all outputs
    were unchanged at the end. ready: bytes of outputs that may have been written before their call.
    """

    measured_ns: int
    unmeasured_ns: int
    late_ns: int
    elapsed_ns: int
    wait_ns: int
    minor_faults: int
    intact: bool
    ready: ReadyBytes


class Caller(ABC):
    """Makes calls on one case in a worker, of models that it has prepared (by key). alone: the
    judge has its own core, so it may poll. trusted: the models are a task's, and their outputs keep
    their values. half: the half of the block, each of which has its own caller. All methods raise
    what Worker.wait raises."""

    # whether the worker never sleeps, so that its processor time is the time that passes
    POLLS = False
    # multiplies an empty call's time inside the worker to bound what a candidate could save of it
    OPEN_FACTOR = 1

    def __init__(
        self,
        worker: Worker,
        pool: CasePool,
        keys: Sequence[str],
        layout: Layout,
        seconds: float,
        *,
        alone: bool,
        trusted: bool,
        half: Half,
    ) -> None:
        self._worker, self._slot_bytes = worker, pool.slot_bytes
        leaves = pool.outputs["leaves"]
        self._layout, self._half = layout, half
        self._models = {key: number for number, key in enumerate(keys)}
        self._seconds, self._alone = seconds, alone
        # only results are checked for overlap: several gradients may be one tensor, as in torch
        self._trusted, self._results = trusted, pool.results
        self._warm, self._calls = pool.warm_calls, pool.warm_calls + pool.calls
        self._gate_fd = memory_files.create("gate", gate.gate_bytes(len(leaves)))
        memory_files.seal(self._gate_fd, writable=True)
        self._gate = gate.Gate(self._gate_fd, len(leaves))
        self._bill = ProcessBill(worker)
        self._process = self._bill.process
        self._outputs = WorkerOutputs(worker, self._process, leaves, pool.slot_bytes)
        self._stopped_ns: int | None = None
        self._reservoir = OutputReservoir[OutputCopy](pool.held_bytes)
        self._forget_word = 0  # the number that goes with the next FORGET
        # calls of the last turn whose outputs are kept
        self._retained_calls: Sequence[int] = ()
        # what these replaced, which the worker may use again from its next turn on
        self._replaced: list[OutputCopy] = []
        live = self._calls * self._slot_bytes + self._reservoir.most_bytes
        size = max(LEAST_TOUCHED, *(leaf["nbytes"] for leaf in leaves))
        about = {
            "layout": layout,
            "outputs": pool.outputs,
            "results": pool.results,
            "upstream": list(pool.upstream),
            "touched": (size, min(MOST_TOUCHED, TOUCHED_TIMES * live) // size),
            "first": half is pool.halves[0],
            "last": half is pool.halves[-1],
        }
        worker.send("calls", [self._gate_fd, *self._link(pool)], keys=list(keys), **about)
        worker.wait(frames.READY, seconds)

    @contextlib.contextmanager
    def _blame_worker(self) -> Iterator[None]:
        """Turn errors of its socket, gate or memory into Interfered: only the worker can cause
        them, since the judge created both ends."""
        try:
            yield
        except PermissionError:
            raise  # this machine does not permit reading another process's memory
        except (OSError, ValueError, TypeError, RuntimeError, OverflowError) as error:
            raise interference(
                self._worker, f"its side of a call does not work: {type(error).__name__}: {error}"
            ) from error

    def turn(
        self,
        key: str,
        sets: Sequence[InputSet],
        warm: int,
        storage: memoryview,
        turn: Turn,
        *,
        unread: bool = False,
    ) -> TurnResult:
        """Make a call on each of the sets; the first `warm` are not measured. The outputs are then
        in `storage`, one slot each. unread: do not copy the outputs, since they are not judged; the
        worker holds as many as in other turns. The worker runs only during this turn. Processor
        time since its last turn is charged to these calls; it is not an accusation, since time that
        the hypervisor takes while a process stops is counted as the process's."""
        began_ns = self._bill.used_ns()
        unpaid_ns = (
            0 if self._stopped_ns is None else max(0, began_ns - self._stopped_ns - STOPPED_NS)
        )
        if is_gone(self._process):
            self._worker.wait(frames.OK, 1.0)  # raises how it ended, if it has
            raise interference(self._worker, "its first thread has ended")
        # prepared before errors are blamed on the worker
        calls = [
            (
                key,
                input_set,
                gate.plain_text(input_set.layout, self._layout),
                None if unread else self._outputs.slot(storage, number),
            )
            for number, input_set in enumerate(sets)
        ]
        started = time.perf_counter_ns()
        with turn(self._worker.root), self._blame_worker():
            self._deadline = time.monotonic() + self._seconds
            forget_ns = self._order(gate.FORGET, self._forget_word)
            results = [self._call(*call) for call in calls[:warm]]
            before_ns, faults = self._usage()
            wait_ns = self._bill.waiting_ns()
            results += [self._call(*call) for call in calls[warm:]]
            after_ns, faults_after = self._usage()
            wait_ns = self._bill.waiting_ns() - wait_ns
            running_ns = time.perf_counter_ns() - started
        self._stopped_ns = self._bill.used_ns()
        # done while the worker is stopped: what it did meanwhile would not be billed
        places = [where for where, _ in results]
        with self._blame_worker():
            self._retained_calls, self._replaced = (), []
            intact = unread or self._outputs.are_intact(places, storage)
            intact = intact and self._retain(
                places, sets, None if unread else storage, range(warm, len(sets))
            )
            ready = self._bytes_ready(places, warm, unread=unread)
            self._change_outputs(places, sets)
        after_ns = max(after_ns, self._stopped_ns - STOPPING_NS)
        # Some system calls heed no signal until they are done. Both bills were read while it was
        # stopped: that of a running process is late by milliseconds
        late_ns = max(0, self._stopped_ns - began_ns - running_ns - STOPPING_NS)
        elapsed_ns = unpaid_ns + sum(elapsed for _, elapsed in results[warm:])
        measured_ns = self._figure(elapsed_ns, unpaid_ns + after_ns - before_ns)
        unmeasured_elapsed_ns = forget_ns + sum(elapsed for _, elapsed in results[:warm])
        unmeasured_ns = self._figure(unmeasured_elapsed_ns, before_ns - began_ns)
        return TurnResult(
            max(1, measured_ns),
            unmeasured_ns,
            late_ns if self.POLLS else 0,
            elapsed_ns,
            wait_ns,
            faults_after - faults,
            intact,
            ready,
        )

    def time_empty_calls(self, times: int, turn: Turn) -> list[tuple[int, int]]:
        """Return for empty calls the figure and the time that a candidate could save of it, in
        nanoseconds. For a trusted worker."""
        figures, slot = [], memoryview(bytearray(self._slot_bytes))
        input_set = random.choice(random.choice(self._half.groups).sets)
        # a candidate with its own parser could save the reading of this text
        plain = gate.plain_text(input_set.layout, self._layout)
        with turn(self._worker.root):
            self._deadline = time.monotonic() + self._seconds
            for _ in range(self._warm):
                self._order(gate.NOTHING, plain=plain)
                self._collect(slot)
            for _ in range(times):
                before_ns, _ = self._usage()
                elapsed_ns = self._order(gate.NOTHING, plain=plain)
                self._collect(slot)
                figures.append(
                    (
                        self._figure(elapsed_ns, self._usage()[0] - before_ns),
                        self.OPEN_FACTOR * self._gate.share_ns,
                    )
                )
        self._stopped_ns = self._bill.used_ns()
        return figures

    def reservoir_is_intact(self) -> bool:
        """Return whether the kept outputs of earlier turns are unchanged."""
        with self._blame_worker():
            return self._reservoir.all_are(self._outputs.is_intact)

    def end(self) -> None:
        """End the calls, so that the worker accepts other commands again."""
        with self._blame_worker():
            self._gate.order(gate.END, 0, b"")
            self._hand_over(None)
        # arrives with the answer, or before it is polled
        self._worker.wait(frames.OK, self._seconds)

    def close(self) -> None:
        os.close(self._gate_fd)

    @abstractmethod
    def _link(self, pool: CasePool) -> list[int]:
        """Return the descriptors that the worker needs besides the gate."""

    @abstractmethod
    def _hand_over(self, input_set: InputSet | None) -> int:
        """Supply inputs, or nothing, and wake the worker. Returns the start by the judge's clock,
        which is not after the worker could see any of the inputs."""

    @abstractmethod
    def _is_done(self) -> bool:
        """Return whether the order is complete."""

    @abstractmethod
    def _collect(self, slot: memoryview | None) -> list[OutputPlace]:
        """Copy the outputs of the last call to the slot, dense, each at its offset in the layout.
        Without a slot they are not needed. Returns their places."""

    @abstractmethod
    def _figure(self, elapsed_ns: int, bill_ns: int) -> int:
        """Choose the figure from the judge's clock and the bill."""

    def _call(
        self, key: str, input_set: InputSet, plain: bytes, slot: memoryview | None
    ) -> tuple[list[OutputPlace], int]:
        """Make one call. Returns the places of its outputs, and nanoseconds by the judge's
        clock."""
        elapsed_ns = self._order(gate.CALL, self._models[key], plain, input_set)
        places = self._collect(slot)
        self._compare_places(places, input_set)
        return places, elapsed_ns

    def _order(
        self,
        order: int,
        number: int = 0,
        plain: bytes = b"",
        input_set: InputSet | None = None,
    ) -> int:
        """Give an order and wait for the answer. Returns nanoseconds by the judge's clock."""
        looks = 0
        self._gate.order(order, number, plain)
        began = self._hand_over(input_set)
        while not self._is_done():
            looks += 1
            if not self._alone:
                time.sleep(SLEEP_S)
            elif looks % SPINS:
                continue
            reply, building = self._worker.poll_reply()
            self._deadline += building
            if reply is not None:
                raise interference(self._worker, "a reply before the command was done")
            self._check_deadline()
        return time.perf_counter_ns() - began

    def _check_deadline(self) -> None:
        """Raise WorkerTimeout once the time for the turn is over, whatever the cause."""
        if time.monotonic() > self._deadline:
            self._worker.kill()
            raise WorkerTimeout(
                f"a turn of {self._calls} calls, with the work between them, took more than the "
                f"allowed {self._seconds:.0f} s: 10 s, or the time that the calls may take by the "
                "strongest baseline"
            )

    def _retain(
        self,
        places: list[list[OutputPlace]],
        sets: Sequence[InputSet],
        storage: memoryview | None,
        calls: range,
    ) -> bool:
        """Keep some outputs of these calls beyond the turn. storage: where they were read to, if at
        all. Returns whether the outputs that they replace were unchanged until now."""
        selection = self._reservoir.draw(calls)
        self._forget_word = selection.word if selection is not None else 0
        self._retained_calls = selection.calls if selection is not None else ()
        if selection is None:
            return True
        copies = []
        for number in sorted(selection.calls):
            if storage is None:
                values = memoryview(bytearray(self._slot_bytes))
                self._outputs.read(places[number], values)
            else:
                values = memoryview(bytearray(self._outputs.slot(storage, number)))
            copies.append(OutputCopy(places[number], values, sets[number].memory["same"]))
        self._replaced = self._reservoir.put(selection, copies)
        return all(map(self._outputs.is_intact, self._replaced))

    def _change_outputs(self, places: list[list[OutputPlace]], sets: Sequence[InputSet]) -> None:
        """Change the outputs, as any caller may: of calls that are not kept beyond the turn, and
        where the reference does not use memory again for these inputs. Those of a task's own models
        are written again as they are, so that both sides find their memory in the same caches."""
        both = enumerate(zip(places, sets, strict=True))
        changeable = [
            *((copy.places, copy.exempt) for copy in self._replaced),
            *(
                (each, input_set.memory["same"])
                for number, (each, input_set) in both
                if number not in self._retained_calls
            ),
        ]
        if self._trusted:
            for outputs, exempt in changeable:
                self._outputs.rewrite(outputs, exempt)
            return
        try:
            output_changes.change(self._process, changeable)
        except OSError as error:
            if error.errno != errno.EFAULT:
                raise
            raise interference(
                self._worker, "an output lies where its caller may not write"
            ) from error

    def _bytes_ready(
        self, places: list[list[OutputPlace]], warm: int, *, unread: bool
    ) -> ReadyBytes:
        """Return how much of the outputs may have been there before their calls, while the worker
        is stopped."""
        return NOTHING_READY

    def _usage(self) -> tuple[int, int]:
        """Return processor time and minor faults so far."""
        return self._bill.usage()

    def _compare_places(self, places: list[OutputPlace], input_set: InputSet) -> None:
        """Raise WorkerFailed where outputs share memory that the reference's do not share for these
        inputs."""
        if self._trusted or self._results < 2:
            return
        if both := output_changes.find_overlap(
            places, input_set.memory["together"][: self._results]
        ):
            raise WorkerFailed(
                "structure",
                f"outputs {both[0]} and {both[1]} lie in the same memory, and the reference's do "
                "not: changing one changes the other. Return separate memory for each",
            )
