"""Paired timing: fresh candidate processes against the baselines, in random order, on inputs that
no process has seen before.

On a CPU, calls are made one by one and the judge's clock gives the figure of both sides (see
calls). The figure of a call that waits for others includes the wait.

On a device that shares memory with the judge, the judge's clock gives the figure of a burst (see
device_slots). On other devices the process's own events do, and the judge's clock, from sending the
inputs to having the outputs, bounds it: a figure that it does not confirm is replaced by the time
that the judge saw, and a difference far beyond noise is an accusation. An advantage within the
uncertainty of the judge's clock is not called faster. All inputs of a burst are there together, so
calls that are bursts of their own must confirm its figure.
"""

from __future__ import annotations

import contextlib
import math
import random
import secrets
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ...types import Case
from ..candidate_workers import Deadlines
from ..device.locks import DeviceLock, between_timings
from ..errors import CancelToken, Interfered, WorkerDied, WorkerFailed, WorkerTimeout
from ..exchange.case_pool import CasePool
from ..exchange.input_sets import Group, Half
from ..exchange.slots import Slots
from ..figures.case_times import Block
from ..processes.freezing import Turn, aside, turns
from ..processes.worker import Worker
from ..tasks.drawer import Drawer
from ..tasks.open_task import OpenTask
from ..tasks.timing_plan import BURSTS
from .ahead import Ahead, counted
from .memory_use import MemoryUse
from .queued import Queued
from .runners import Burst, InBursts, OneByOne, Sides
from .timed_outputs import PENDING_BYTES, raise_if_changed, verify_outputs
from .timed_state import TimedState

PROCESSES = 3
# limit on one side's calls in a block, after BURSTS bursts: a slow candidate needs no more
MOST_SECONDS = 0.5

LOOKS = 3  # readings of a device's memory in each half, in random rounds


class BaselineLost(Exception):
    """A baseline did not answer: an error of the evaluator that the candidate did not cause."""


@contextlib.contextmanager
def _blame(name: str) -> Iterator[None]:
    """Attribute errors inside the block: the candidate's ("") are findings, a baseline's are
    not."""
    try:
        yield
    except (WorkerFailed, WorkerDied, WorkerTimeout, Interfered) as error:
        if not name:
            raise
        raise BaselineLost(
            f"baseline {name} {str(error) or 'did not answer before the deadline'}"
        ) from error


def time_process(
    task: OpenTask,
    case: Case,
    worker: Worker,
    slots: Slots,
    baselines: list[str],
    lock: DeviceLock,
    cancel: CancelToken | None,
    rng: random.Random,
    deadlines: Deadlines,
    change: Callable[[str, int], None],
    *,
    one_core: bool = True,
    checked: bool = True,
    hot: bool = True,
) -> Block:
    """Time one fresh candidate process against the baselines, for one case.

    change: puts a side ("" is the candidate) into a state of the parameters; used between the
    halves if there are parameters. one_core: both sides are pinned to the timing core. checked:
    timed outputs must be right. hot: also measure the figures shown beside the verdict, for which
    both sides make more calls. Raises WrongWhenTimed.
    """
    pool = task.pools[case.name]
    names = ["", *baselines]
    times_us: dict[str, list[float]] = {name: [] for name in names}
    processes = (worker.pid, task.baseline_worker.pid)
    kind = OneByOne if pool.one_by_one else Queued if pool.shared else InBursts
    sides = kind(task, pool, worker, slots, baselines, deadlines, one_core=one_core)
    sides.blame = _blame
    roots = {worker.root: "", task.baseline_worker.root: baselines[0]}
    # the first call of a fresh process may compile, which is never done under the lock
    for name in baselines:
        with _blame(name):
            sides.compile(name)
    watched = checked and pool.updated
    state = TimedState(pool, worker, task.drawer) if watched else None
    is_billed = pool.one_by_one and one_core
    ahead = Ahead(worker, task.baseline_worker) if watched and is_billed else None
    with lock.hold(cancel), aside(task.timing_cpus):
        before = task.family.state(processes)
        block = Block({}, before, before, calls=pool.calls, warm=pool.warm_calls)
        memory = MemoryUse(task, worker, candidate=True)
        rounds = _Rounds(
            case.name,
            pool,
            sides,
            names,
            rng,
            block,
            times_us,
            len(pool.timing),
            task.drawer if checked else None,
        )
        for half in pool.halves:
            sides.calls_made = {}
            sides.call_counts.clear()
            if ahead is not None:
                with _blame(""):
                    ahead.begin()
            if half.state:
                # callers are started again afterwards: a worker in calls takes no commands
                for name in ("", baselines[0]):
                    with _blame(name), counted(ahead, bool(name)):
                        change(name, half.state)
            sides.half = half
            if state is not None:
                with _blame(""):
                    state.begin(lambda: sides.call_once(""))
            if ahead is not None:
                with _blame(names[1]), ahead.of_baseline():
                    for _ in range(sides.call_counts[""]):
                        sides.call_once(names[1])
            with sides, turns(*roots, blame=lambda root: _blame(roots[root])) as turn:
                rounds.run(half, turn, memory, state, ahead)
                if state is not None:
                    state.look()
            if state is not None:
                state.end(half.state, sides.calls_made[""])
        block.after = task.family.state(processes)
        memory.record(block, "", slots)
        for name in names if hot else ():
            memory = MemoryUse(task, sides.workers[name], candidate=not name)
            with _blame(name):
                block.warm_us[name], waited, deciding = sides.hot(name)
            if name:  # here, since baselines share a process and so their rounds' memory
                memory.record(block, name, sides.slots[name])
            if not task.family.SYNCHRONOUS:
                block.end_to_end_us[name] = waited
            if deciding is not None:
                block.dispatch_us[name] = deciding
    with between_timings(lock, task.family, cancel):
        rounds.verify()
        if state is not None:
            state.verify()
    block.state_open = state is not None and bool(state.open)
    block.unseen_us = ahead.us if ahead is not None else sides.unseen_us("")
    block.pairs = {name: list(zip(times_us[name], times_us[""], strict=True)) for name in baselines}
    return block


class _Rounds:
    """The rounds of one block. Their figures go to `block` and `times_us`. most: the limit on the
    rounds of both halves together. drawer: of the sets, None if outputs need not be right. Raises
    WrongWhenTimed."""

    def __init__(
        self,
        case: str,
        pool: CasePool,
        sides: Sides,
        names: list[str],
        rng: random.Random,
        block: Block,
        times_us: dict[str, list[float]],
        most: int,
        drawer: Drawer | None,
    ) -> None:
        self._case, self._pool, self._sides, self._rng = case, pool, sides, rng
        self._names, self._baseline = list(names), names[1]
        self._block, self._times_us, self._most = block, times_us, most
        self._drawer = drawer
        # storage for unverified outputs of the candidate; the baselines' are copied alike
        size = (pool.warm_calls + pool.calls) * pool.slot_bytes
        places = 1 + max(1, min(most, PENDING_BYTES // size))
        self._storage = sides.slots[""].storage(places, pool.warm_calls + pool.calls)
        self._pending: list[tuple[Any, Group]] = []
        block.unverified = places - 1
        self._half = pool.halves[0]
        self._on_device = isinstance(sides, Queued)

    def run(
        self,
        half: Half,
        turn: Turn,
        memory: MemoryUse,
        state: TimedState | None,
        ahead: Ahead | None,
    ) -> None:
        """Run the rounds of one half. memory: that of the candidate, started before the rounds.
        state: what it updates, looked at after one of them and after calls alone. ahead: of
        this half."""
        self.verify()
        self._half, names, pool, sides = half, self._names, self._pool, self._sides
        self._block.changed_at = len(self._times_us[""])
        settled_ns = math.inf
        for name in names:
            with _blame(name), counted(ahead, name == self._baseline):
                burst_ns = sides.settle(name, self._storage[0], turn)
            if name or self._on_device:
                self._limit_rounds(burst_ns)
            else:
                settled_ns = burst_ns
        if ahead is not None:
            with _blame(""):
                ahead.settled(sides.call_counts[""], sides.call_counts[self._baseline])
        memory.look()
        rounds = rounds_of(half, pool, self._most)
        offset, number = self._rng.randrange(rounds), 0
        look_rounds: Sequence[int] = ()
        between, cuts = 0 if rounds == 1 else -1, dict[int, int]()
        while number < rounds:
            self._rng.shuffle(names)
            if state is not None and number in cuts:
                self._cut_turns(half.group(number + offset), cuts[number], turn)
                state.look_between(len(sides.calls_made[""]))
                number += 1
                continue
            # while its calls are queued: they may release again what they use
            sides.watch = memory.look if number in look_rounds else None
            if state is not None and number == between:
                # for every side, so that each burst of the round has them
                sides.also.update(dict.fromkeys(names, state.copies()))
            for position, name in enumerate(names):
                # each side gets sets that the others have not just read, so that no side finds warm
                # caches
                shift = 0 if not name else (1 + position) * max(1, rounds // (len(names) + 1))
                result = self._run_burst(name, half.group(number + offset + shift), turn)
                self._times_us[name].append(result.inside_ns / 1e3 / pool.calls)
                if pool.one_by_one:
                    usual_ns = pool.warm_calls * result.inside_ns / pool.calls
                    self._block.unmeasured_ns.setdefault(name, []).append(
                        result.unmeasured_ns - usual_ns
                    )
                if name == self._baseline:
                    self._block.gap_ns.append(float(result.outside_ns - result.inside_ns))
                note(self._block, result, pool, half, candidate=not name)
                if state is not None and number == between and not name:
                    state.look_between(len(sides.calls_made[""]))
            number += 1
            if number == 1 < rounds:
                # not by the turns in which its heap settled alone, which nobody bills: who burns
                # time in them would have few rounds; another program may have disturbed either
                first_ns = self._times_us[""][-1] * 1e3 * pool.calls
                self._limit_rounds(min(first_ns, settled_ns))
                rounds = max(2, rounds_of(half, pool, self._most))
                between = self._rng.randrange(1, rounds)
                cuts = state.draw_cuts(self._rng, rounds) if state is not None else {}
                if self._on_device:
                    look_rounds = self._rng.sample(range(1, rounds), min(LOOKS, rounds - 1))
        sides.watch = None
        if ahead is not None:
            own_us, baseline_us = (
                self._times_us[name][self._block.changed_at :] for name in ("", self._baseline)
            )
            ahead.spread(own_us, baseline_us, pool.warm_calls + pool.calls)
        # not between the rounds, since they would warm up one side's process
        for _ in range(min(rounds, sides.NULL_TURNS)):
            with _blame(self._baseline):
                self._block.null_ns += sides.time_empty_calls(turn)
        alone = pool.single_call_groups if half is pool.halves[-1] else []
        look_rounds = state.looks_alone(self._rng, len(alone)) if state is not None else ()
        for number, group in enumerate(alone):
            self._rng.shuffle(names)
            looks = state is not None and number in look_rounds
            if state is not None and looks:
                sides.also.update(dict.fromkeys(names, state.copies()))
            for name in names:
                self._block.alone_us.setdefault(name, []).append(
                    self._run_burst(name, group, turn).inside_ns / 1e3
                )
                if state is not None and looks and not name:
                    state.look_between(len(sides.calls_made[""]))
        self._require_intact(self._sides.outputs_are_intact(""))

    def _cut_turns(self, group: Group, calls: int, turn: Turn) -> None:
        """Let the turns of a round end early, of both sides so that their caches stay alike."""
        for name in self._names:
            with _blame(name):
                intact = self._sides.cut_turn(name, group.sets, calls, self._storage[0], turn)
            if not name:
                self._require_intact(intact)

    def _limit_rounds(self, burst_ns: float) -> None:
        """Let a slow side have few rounds, if none of the second half has begun."""
        if self._half is self._pool.halves[0]:
            self._most = min(self._most, most_rounds(burst_ns, self._pool))

    def verify(self) -> None:
        """Verify the pending outputs."""
        if self._drawer is None:
            self._pending.clear()
            return
        verify_outputs(
            self._case,
            self._pool,
            self._pending,
            self._half,
            self._sides.slots[""],
            self._drawer,
        )

    def _run_burst(self, name: str, group: Group, turn: Turn) -> Burst:
        pending, storage = self._pending, self._storage
        with _blame(name):
            result = self._sides.burst(
                name, group.sets, storage[0 if name else 1 + len(pending)], turn
            )
        if not name:
            self._require_intact(result.intact)
            pending.append((storage[1 + len(pending)], group))
            if len(pending) == len(storage) - 1:
                self.verify()
        return result

    def _require_intact(self, intact: bool) -> None:
        """Raise WrongWhenTimed if outputs changed after they were returned."""
        if self._drawer is not None:
            raise_if_changed(self._case, intact)


def most_rounds(burst_ns: float, pool: CasePool) -> int:
    """Return the rounds for which there is time with bursts of this length."""
    turn_ns = burst_ns * (1 + pool.warm_calls / pool.calls)
    return max(BURSTS, round(1e9 * MOST_SECONDS / max(turn_ns, 1)))


def rounds_of(half: Half, pool: CasePool, most: int) -> int:
    """Return the rounds of a half, of so many of both together."""
    later_rounds = most // 2 if len(pool.halves) > 1 else 0
    return later_rounds if half.state else most - later_rounds


def note(block: Block, result: Burst, pool: CasePool, half: Half, *, candidate: bool) -> None:
    """Add a burst of the candidate or of a baseline to the block's figures."""
    calls = pool.calls
    if candidate:
        block.inner_ns.append(float(result.inside_ns))
        block.outer_ns.append(float(result.outside_ns))
        block.process_clock_ns += (
            [float(result.process_clock_ns)] if result.process_clock_ns else []
        )
        block.faults.append(result.minor_faults / calls)
        ready = result.ready
        found = ready.measured + ready.unmeasured
        alike_bytes = min(found, half.alike_bytes * calls) if found else 0
        usual_bytes = min(ready.early, half.usual_bytes * calls) if ready.early else 0
        block.ready_bytes.append(max(alike_bytes, usual_bytes, ready.mapped) / calls)
        # the time that unmeasured calls save is of use up to all of a measured call's outputs
        block.unknown_bytes.append(min(found / calls, pool.slot_bytes))
        block.launch_us.append(result.queued_ns / 1e3 / calls)
    else:
        block.baseline_faults.append(result.minor_faults / calls)
        block.busy.append(result.busy)
    block.switches += result.switches


def strongest(case: Case) -> str:
    """Return the fastest baseline of the screening."""
    return min(case.baselines_us, key=lambda name: case.baselines_us[name])


def contenders(case: Case, *, every: bool) -> list[str]:
    """Return the baselines to time: all of them, or at most two within 5 % of the strongest in the
    screening. Not more, because baselines that take turns in one process are warmer than the
    candidate between them, and honest candidates were then accused of working ahead of their
    calls."""
    ordered = sorted(case.baselines_us, key=lambda name: case.baselines_us[name])
    limit = case.baselines_us[ordered[0]] * 1.05
    return ordered if every else [name for name in ordered if case.baselines_us[name] <= limit][:2]


def fresh_rng() -> random.Random:
    """Return a generator for order and bootstrap that is not predictable from outside."""
    return random.Random(secrets.randbits(64))
