"""Calls on a CPU one by one, each timed from outside: what both ways share. See `billed` and
`packets`.

Nothing that the worker says about time counts, and nothing is deducted. Nobody else can work for
it: a timed worker cannot leave its core, starts no process, and is stopped outside its turns.
"""

from __future__ import annotations

import contextlib
import errno
import math
import os
import random
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ...wire import buffers, frames
from ...workers import gate
from ..errors import Interfered, WorkerFailed, WorkerTimeout
from ..processes.freezing import Turn, children, fields_of, is_gone, read
from ..processes.worker import Worker
from . import used_outputs, worker_memory
from .case_pool import CasePool
from .held_outputs import HeldOutputs
from .input_sets import Half, InputSet

SPINS = 1000  # looks before something else is attended to: some 50 us
SLEEP_S = 20e-6  # between two looks where the worker needs the judge's core
# of processor time in which the threads of an honest process notice that it is stopped
STOPPED_NS = 200_000
# the same, of one that sleeps when it is stopped: 10 to 40 us on a virtual machine. What it runs
# beyond that between its bill and the stop is on the bill as well
STOPPING_NS = 40_000
# of the outputs of a turn that are looked at again when all calls are done; one in any case
COMPARED_BYTES = 64 << 20
WORD_BYTES = 8  # of an int64
# Before its first call a worker's heap has pages for so many times the outputs that are held at
# once, for at least and at most so many bytes. With results of 8 and 16 MiB, 9 of 96 measured
# bursts took fresh pages with twice as much, none of 96 with three times; before, one in three, and
# such a call took two to four times as long.
TOUCHED_TIMES, LEAST_TOUCHED, MOST_TOUCHED = 3, 1 << 12, 1 << 30


@dataclass(frozen=True)
class TurnResult:
    """Of the measured calls of one turn, all together. own_ns: the figure. seen_ns: by the judge's
    clock, from before a call's inputs can be seen until its outputs are said to be there.
    unmeasured_ns, unmeasured_seen_ns: what the turn took before them, by the same two clocks.
    waited_ns: for a core, meanwhile and between the calls, by the worker or by the judge. kept:
    whether all outputs were
    still the same in the end."""

    own_ns: int
    unmeasured_ns: int
    seen_ns: int
    unmeasured_seen_ns: int
    waited_ns: int
    minor_faults: int
    kept: bool


@dataclass(frozen=True)
class Shown:
    """Where a worker has an output: address, bytes from its first to its last element, strides in
    elements unless it is contiguous."""

    address: int
    size: int
    strides: list[int] | None
    leaf: dict[str, Any]


@dataclass(frozen=True)
class _Held:
    """Outputs of a call that the worker still holds: where, and what they were."""

    shown: list[Shown]
    values: memoryview


class Caller(ABC):
    """A worker that makes calls on one case, of models that it has prepared (by key). alone: the
    judge has a core to itself, so that it may look again and again. trusted: the models are a
    task's, whose outputs nobody changes. half: of the block, each of which has a caller of its own.
    Everything raises what Worker.wait raises."""

    # on what passes inside the worker in a call that does nothing: how much a call may save of it
    OPEN_FACTOR = 1

    def __init__(
        self,
        worker: Worker,
        pool: CasePool,
        keys: Sequence[str],
        layout: buffers.Layout,
        seconds: float,
        *,
        alone: bool,
        trusted: bool,
        half: Half,
    ) -> None:
        self._worker, self._outputs, self._slot_bytes = (
            worker,
            pool.outputs["leaves"],
            pool.slot_bytes,
        )
        self._layout, self._half = layout, half
        self._models = {key: number for number, key in enumerate(keys)}
        self._seconds, self._alone = seconds, alone
        # gradients may be one and the same: the framework's own often are
        self._trusted, self._results = trusted, pool.results
        self._warm, self._calls = pool.warm, pool.warm + pool.calls
        self._gate_fd = buffers.create("gate", gate.gate_bytes(len(self._outputs)))
        buffers.seal(self._gate_fd, writable=True)
        self._gate = gate.Gate(self._gate_fd, len(self._outputs))
        self._process = _process_of(worker)
        # CPUCLOCK_SCHED of a process: include/linux/posix-timers_types.h of the kernel
        self._clock = (~self._process << 3) | 2
        self._stopped_ns: int | None = None
        self._later = HeldOutputs[_Held](pool.held_bytes)
        self._again = memoryview(b"")  # what was looked at again last
        self._forgetting = 0  # what is said with the next FORGET
        self._longer: Sequence[int] = ()  # calls of the last turn whose outputs are held on to
        live = self._calls * self._slot_bytes + self._later.most_bytes
        size = max(LEAST_TOUCHED, *(leaf["nbytes"] for leaf in self._outputs))
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
    def _believing_nothing(self) -> Iterator[None]:
        """What is wrong with its socket, gate or memory is the worker's doing: both ends are the
        judge's own but for it."""
        try:
            yield
        except PermissionError:
            raise  # this machine does not let its memory be read
        except (OSError, ValueError, TypeError, RuntimeError, OverflowError) as error:
            raise self._nonsense(
                f"its side of a call does not work: {type(error).__name__}: {error}"
            ) from error

    def turn(
        self,
        key: str,
        sets: Sequence[InputSet],
        warm: int,
        place: memoryview,
        turn: Turn,
        *,
        unread: bool = False,
    ) -> TurnResult:
        """A call on each of the sets, of which the first `warm` are not measured. Their outputs lie
        in `place` then, a slot each, unless they are `unread`: nobody judges them, and the worker
        holds as many as in other turns. The worker runs in this turn only; processor time that it
        took since its last one is charged to these calls. It is no accusation: what a hypervisor
        takes while a process stops counts as that process's."""
        begun_ns = self._used_ns()
        unpaid_ns = (
            0 if self._stopped_ns is None else max(0, begun_ns - self._stopped_ns - STOPPED_NS)
        )
        if is_gone(self._process):
            self._worker.wait(frames.OK, 1.0)  # raises how it ended, if it has
            raise self._nonsense("its first thread has ended")
        # before anything is the worker's doing
        calls = [
            (
                key,
                held,
                gate.plain_text(held.layout, self._layout),
                None if unread else self._slot(place, number),
            )
            for number, held in enumerate(sets)
        ]
        with turn(self._worker.root), self._believing_nothing():
            self._deadline = time.monotonic() + self._seconds
            forgot_ns = self._order(gate.FORGET, self._forgetting)
            shown = [self._call(*call) for call in calls[:warm]]
            before_ns, faults = self._so_far()
            waited_ns = self._waited_ns()
            shown += [self._call(*call) for call in calls[warm:]]
            after_ns, faults_after = self._so_far()
            waited_ns = self._waited_ns() - waited_ns
        self._stopped_ns = self._used_ns()
        # it does not run while this takes: what it did meanwhile, nobody would be billed for
        lie = [where for where, _ in shown]
        with self._believing_nothing():
            kept = unread or self._kept(lie, place)
            kept = kept and self._hold(lie, None if unread else place, range(warm, len(sets)))
            self._change(lie, sets)
        after_ns = max(after_ns, self._stopped_ns - STOPPING_NS)
        seen_ns = unpaid_ns + sum(seen for _, seen in shown[warm:])
        own_ns = self._figure(seen_ns, unpaid_ns + after_ns - before_ns)
        unmeasured_seen_ns = forgot_ns + sum(seen for _, seen in shown[:warm])
        unmeasured_ns = self._figure(unmeasured_seen_ns, before_ns - begun_ns)
        return TurnResult(
            max(1, own_ns),
            unmeasured_ns,
            seen_ns,
            unmeasured_seen_ns,
            waited_ns,
            faults_after - faults,
            kept,
        )

    def nothing(self, times: int, turn: Turn) -> list[tuple[int, int]]:
        """The figures of calls that do nothing, and what a candidate could save of each:
        nanoseconds. For a worker that is trusted."""
        found, slot = [], memoryview(bytearray(self._slot_bytes))
        drawn = random.choice(random.choice(self._half.groups).sets)
        plain = gate.plain_text(drawn.layout, self._layout)  # who reads it himself saves that
        with turn(self._worker.root):
            self._deadline = time.monotonic() + self._seconds
            for _ in range(self._warm):
                self._order(gate.NOTHING, plain=plain)
                self._collect(slot)
            for _ in range(times):
                before_ns, _ = self._so_far()
                seen_ns = self._order(gate.NOTHING, plain=plain)
                self._collect(slot)
                found.append(
                    (
                        self._figure(seen_ns, self._so_far()[0] - before_ns),
                        self.OPEN_FACTOR * self._gate.share_ns,
                    )
                )
        self._stopped_ns = self._used_ns()
        return found

    def still_kept(self) -> bool:
        """Whether the outputs of earlier turns that are held are what they were."""
        with self._believing_nothing():
            return self._later.all_are(self._is_kept)

    def end(self) -> None:
        """The worker takes other commands again."""
        with self._believing_nothing():
            self._gate.order(gate.END, 0, b"")
            self._give(None)
        # comes with the answer, or before anybody has looked for that
        self._worker.wait(frames.OK, self._seconds)

    def close(self) -> None:
        os.close(self._gate_fd)

    # ---- what differs

    @abstractmethod
    def _link(self, pool: CasePool) -> list[int]:
        """What the worker needs besides the gate: descriptors."""

    @abstractmethod
    def _give(self, held: InputSet | None) -> int:
        """Hand over inputs, or nothing, and wake. When that began, by the judge's clock: not later
        than the worker could see any of it."""

    @abstractmethod
    def _answered(self) -> bool:
        """Whether the order was followed."""

    @abstractmethod
    def _collect(self, slot: memoryview | None) -> list[Shown]:
        """Take the outputs that were just shown, dense, each where its layout has it; without a
        slot nobody looks at them."""

    @abstractmethod
    def _figure(self, seen_ns: int, bill_ns: int) -> int:
        """Of what the judge's clock and the bill say."""

    # ---- what both do

    def _call(
        self, key: str, held: InputSet, plain: bytes, slot: memoryview | None
    ) -> tuple[list[Shown], int]:
        """Where its outputs lie, and nanoseconds by the judge's clock."""
        seen_ns = self._order(gate.CALL, self._models[key], plain, held)
        shown = self._collect(slot)
        self._compare_places(shown, held)
        return shown, seen_ns

    def _order(
        self,
        order: int,
        number: int = 0,
        plain: bytes = b"",
        held: InputSet | None = None,
    ) -> int:
        """Give an order and wait for the answer. Nanoseconds by the judge's clock."""
        looks = 0
        self._gate.order(order, number, plain)
        began = self._give(held)
        while not self._answered():
            looks += 1
            if not self._alone:
                time.sleep(SLEEP_S)
            elif looks % SPINS:
                continue
            reply, building = self._worker.poll_reply()
            self._deadline += building
            if reply is not None:
                raise self._nonsense("a reply before the command was done")
            self._in_time()
        return time.perf_counter_ns() - began

    def _in_time(self) -> None:
        """Raises WorkerTimeout once the time for the turn is over, whatever took it."""
        if time.monotonic() > self._deadline:
            self._worker.kill()
            raise WorkerTimeout(
                f"a turn of {self._calls} calls, with what is done between them, took more than "
                f"the {self._seconds:.0f} s that there are for it: 10 s, or what the calls may "
                "take by the strongest baseline"
            )

    # ---- outputs once more

    def _kept(self, shown: list[list[Shown]], place: memoryview) -> bool:
        """Whether outputs of some earlier calls of the turn are still what they were."""
        earlier = len(shown) - 1
        some = random.sample(
            range(earlier), min(earlier, max(1, COMPARED_BYTES // self._slot_bytes))
        )
        return all(
            self._is_kept(_Held(shown[number], self._slot(place, number))) for number in some
        )

    def _hold(self, shown: list[list[Shown]], place: memoryview | None, calls: range) -> bool:
        """Hold on to some outputs of these calls beyond the turn. place: where they were read, if
        they were. Whether those whose places they take were kept until now."""
        drawn = self._later.draw(calls)
        self._forgetting = drawn.word if drawn is not None else 0
        self._longer = drawn.calls if drawn is not None else ()
        if drawn is None:
            return True
        some = []
        for number in sorted(drawn.calls):
            if place is None:
                values = memoryview(bytearray(self._slot_bytes))
                self._read(shown[number], values)
            else:
                values = memoryview(bytearray(self._slot(place, number)))
            some.append(_Held(shown[number], values))
        return all(self._is_kept(held) for held in self._later.put(drawn, some))

    def _change(self, shown: list[list[Shown]], sets: Sequence[InputSet]) -> None:
        """As a caller may who was given these outputs: some of those that nobody holds beyond the
        turn, and that are no memory of the reference's own for these inputs."""
        if self._trusted:
            return
        both = enumerate(zip(shown, sets, strict=True))
        dropped = [
            (each, held.memory["same"])
            for number, (each, held) in both
            if number not in self._longer
        ]
        try:
            used_outputs.change(self._process, dropped)
        except OSError as error:
            if error.errno != errno.EFAULT:
                raise
            raise self._nonsense("an output lies where its caller may not write") from error

    def _is_kept(self, held: _Held) -> bool:
        """Whether there lies in the worker's memory what lay there."""
        if not self._again:  # fresh memory takes longer than reading into it
            self._again = memoryview(bytearray(self._slot_bytes))
        self._read(held.shown, self._again)
        return same(self._again, held.values, self._outputs)

    def _read(self, shown: list[Shown], slot: memoryview) -> None:
        """Outputs in the worker's memory, dense."""
        parts = [(one, one.leaf["offset"]) for one in shown if one.size]
        self._copy(
            [
                (one.address, slot[offset : offset + one.size])
                for one, offset in parts
                if one.strides is None
            ]
        )
        for one, offset in parts:
            if one.strides is not None:
                spread = memoryview(bytearray(one.size))
                self._copy([(one.address, spread)])
                dense(spread, one, slot[offset : offset + one.leaf["nbytes"]])

    def _copy(self, parts: list[tuple[int, memoryview]]) -> None:
        try:
            worker_memory.copy(self._process, parts)
        except OSError as error:
            if error.errno == errno.ESRCH:
                self._worker.wait(frames.OK, 1.0)  # it has ended: raises how
            if error.errno in (errno.ESRCH, errno.EFAULT):
                raise self._nonsense("an output is not in its memory") from error
            raise

    def _used_ns(self) -> int:
        """Processor time of the worker's process so far: exact while it does not run."""
        try:
            return time.clock_gettime_ns(self._clock)
        except OSError:  # it has ended
            self._worker.wait(frames.OK, 1.0)
            raise

    def _so_far(self) -> tuple[int, int]:
        """Processor time and minor faults so far."""
        state = fields_of(self._process)
        return self._used_ns(), int(state[7]) if state else 0

    def _waited_ns(self) -> int:
        """How long the process was ready to run so far, and had no core; and this thread, which
        would have looked sooner."""
        each = (read(f"/proc/{of}/schedstat").split() for of in (self._process, "thread-self"))
        return sum(int(fields[1]) for fields in each if len(fields) > 1)

    def _slot(self, place: memoryview, number: int) -> memoryview:
        return place[number * self._slot_bytes : (number + 1) * self._slot_bytes]

    def _shown(self) -> list[Shown]:
        """Where the worker says that its outputs lie."""
        found = []
        for number, leaf in enumerate(self._outputs):
            address, size, strides = self._gate.output(number)
            right = size == leaf["nbytes"]
            if strides is not None:
                item = leaf["nbytes"] // max(1, _count(leaf))
                right = (
                    _are(strides, leaf) and gate.spread_bytes(leaf["shape"], strides, item) == size
                )
            if not right:
                raise self._nonsense(
                    f"output {number} is said to take {size} bytes, with the strides {strides}"
                )
            found.append(Shown(address, size, strides, leaf))
        return found

    def _compare_places(self, shown: list[Shown], held: InputSet) -> None:
        """Raises WorkerFailed where outputs share memory that the reference's do not, for these
        inputs."""
        if self._trusted or self._results < 2:
            return
        if both := used_outputs.shared(shown, held.memory["together"][: self._results]):
            raise WorkerFailed(
                "structure",
                f"outputs {both[0]} and {both[1]} lie in the same memory, and the reference's do "
                "not: whoever changes one changes the other. Return memory of its own for each",
            )

    def _nonsense(self, text: str) -> Interfered:
        self._worker.kill()
        return Interfered(text)


def _process_of(worker: Worker) -> int:
    """The process that runs the calls, as this one counts: the first child of a namespace's first
    process, which may start no other."""
    pid = worker.pid
    return next(iter(children(pid)), pid) if worker.root == pid else pid


def _are(strides: list[int], leaf: dict[str, Any]) -> bool:
    """Whether these are the reference's strides: bringing others into order would be work that the
    judge does for a candidate."""
    given = zip(leaf["shape"], strides, leaf.get("as", ()), strict=False)
    return len(strides) == len(leaf["shape"]) and all(
        extent == 1 or one == other for extent, one, other in given
    )


def _count(leaf: dict[str, Any]) -> int:
    return math.prod(leaf["shape"])


def dense(spread: memoryview, one: Shown, place: memoryview) -> None:
    """An output with gaps, without them."""
    lies = buffers.tensor(
        spread, {**one.leaf, "stride": one.strides, "nbytes": len(spread), "offset": 0}
    )
    buffers.tensor(place, {**one.leaf, "offset": 0}).copy_(lies)


def same(one: memoryview, other: memoryview, outputs: list[dict[str, Any]]) -> bool:
    """Whether all outputs of two slots are equal bit by bit, so that NaN equals itself."""
    parts = (slice(leaf["offset"], leaf["offset"] + leaf["nbytes"]) for leaf in outputs)
    return all(_equal(one[part], other[part]) for part in parts)


def _equal(one: memoryview, other: memoryview) -> bool:
    """Words first, then the bytes that fill none. Nothing is copied, unlike by bytes(), and torch
    compares words in a tenth of the time of the bytes of a memoryview (16 MiB: 2 and 28 ms)."""
    import torch

    if len(one) != len(other):
        return False
    whole = len(one) // WORD_BYTES * WORD_BYTES
    if whole:  # torch takes no empty memory
        words = (torch.frombuffer(each[:whole], dtype=torch.int64) for each in (one, other))
        if not torch.equal(*words):
            return False
    return one[whole:] == other[whole:]
