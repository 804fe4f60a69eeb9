"""One block with several candidates, each in its own confined process, timed burst by burst in
random order against one baseline.

A candidate runs only in its own turns; everything that it started is stopped while another one
runs, also while that one is loaded, prepared or given other parameters. Otherwise they could pass
each other data: a futex in a file that all map, for example, tells how many threads wait there, but
a stopped thread does not wait. All candidates get inputs that they have not seen, and every timed
output of each is verified.
"""

from __future__ import annotations

import contextlib
import os
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from ...types import Case
from ..candidate_workers import deadlines, prepare, set_state
from ..errors import Interfered, WorkerDied, WorkerFailed, WorkerTimeout
from ..exchange.input_sets import Group, Half
from ..exchange.slots import Slots
from ..failures import Failure, explain
from ..figures import case_times
from ..processes.freezing import HeldProcesses, Turn, aside, is_gone, turns
from ..processes.worker import Worker
from ..stage_context import StageContext
from ..tasks.drawer import Drawer
from . import blocks, paired, timed_outputs, timed_state
from .ahead import Ahead
from .memory_use import MemoryUse
from .queued import Queued
from .runners import Burst, InBursts, OneByOne

_WORKERS = (WorkerFailed, WorkerDied, WorkerTimeout, Interfered)


class Lost(Exception):
    """The candidate at this place failed while it was timed. The block gives no result for the
    others."""

    def __init__(self, place: int, failure: Failure) -> None:
        super().__init__(failure.message)
        self.place, self.failure = place, failure


@dataclass
class _Side:
    """A candidate in one block. round_us: microseconds per call. pending: outputs that wait to be
    verified."""

    place: int
    context: StageContext
    worker: Worker
    slots: Slots
    storage: list[Any] = field(default_factory=list)
    pending: list[tuple[Any, Group]] = field(default_factory=list)
    round_us: list[float] = field(default_factory=list)

    @property
    def name(self) -> str:
        """Its name among the sides of a block; "" for the first candidate."""
        return f"candidate {self.place}" if self.place else ""


def time_case(
    case: Case,
    contexts: Sequence[StageContext],
    workers: Sequence[Worker],
    held: HeldProcesses,
    baseline: str,
    rng: random.Random,
) -> list[case_times.Block]:
    """Time one block for each candidate, with equally many interleaved rounds. case: with its
    screening. held: has stopped all workers, which stand still afterwards. Raises Lost."""
    task, pool = contexts[0].task, contexts[0].task.pools[case.name]
    blocks.draw(contexts[0], case, len(contexts))
    sides = []
    try:
        for place, (context, worker) in enumerate(zip(contexts, workers, strict=True)):
            with _attribute_failures(case, place, context, worker), held.turn(worker.root):
                slots = prepare(context, worker, pool, 1 if pool.one_by_one else pool.calls)
                sides.append(_Side(place, context, worker, slots))
        task.drawer.set_state(pool, 0)
        task.prepare_baselines(case.name, [baseline])
        task.baseline_worker.ask("threads", seconds=60, count=1, cpus=list(task.timing_cpus))
        try:
            return _CaseRounds(case, sides, held, baseline, rng).measure()
        except _WORKERS as error:  # a worker ended between turns
            lost_side = next((side for side in sides if _is_gone(side.worker)), None)
            if lost_side is None:
                raise
            with _attribute_failures(case, lost_side.place, lost_side.context, lost_side.worker):
                raise error
    finally:
        pool.release()  # no other process sees these inputs
        if pool.describe["state"] and task.has_baselines(case.name):
            Drawer(task.baseline_worker).take_state(pool, 0)
        task.baseline_worker.ask(
            "threads", seconds=60, count=1, cpus=sorted(os.sched_getaffinity(0))
        )


class _CaseRounds:
    """The candidates and the baseline on one case."""

    def __init__(
        self,
        case: Case,
        candidates: Sequence[_Side],
        held: HeldProcesses,
        baseline: str,
        rng: random.Random,
    ) -> None:
        self._case, self._candidates, self._baseline, self._rng = case, candidates, baseline, rng
        self._held = held
        first = candidates[0]
        self._task, self._pool = first.context.task, first.context.task.pools[case.name]
        pool = self._pool
        kind = OneByOne if pool.one_by_one else Queued if pool.shared else InBursts
        self._sides = kind(
            self._task,
            pool,
            first.worker,
            first.slots,
            [baseline],
            deadlines(case, pool),
        )
        for side in candidates[1:]:
            self._sides.join(side.name, side.worker, side.slots)
        self._sides.blame, self._sides.awake = self._blame, self._awake
        self._by_name = {side.name: side for side in candidates}
        watched = candidates if pool.updated else ()
        self._states = {
            side.name: timed_state.TimedState(pool, side.worker, self._task.drawer)
            for side in watched
        }
        self._ahead = {
            side.name: Ahead(side.worker, self._task.baseline_worker)
            for side in (watched if pool.one_by_one else ())
        }
        # a device's memory, for what may have been prepared in it; whose the memory is that counts
        # for no process, nobody knows here
        self._memory = {
            side.name: MemoryUse(self._task, side.worker, candidate=False)
            for side in (candidates if pool.shared else ())
        }
        self._names = [*self._by_name, baseline]
        self._most = len(pool.timing) // len(candidates)
        size = (pool.warm_calls + pool.calls) * pool.slot_bytes
        each = max(1, min(self._most, timed_outputs.PENDING_BYTES // (size * len(candidates))))
        # a single call, since all slots share their storage
        storage = first.slots.storage(1 + each * len(candidates), pool.warm_calls + pool.calls)
        self._scratch = storage[0]
        for side in candidates:
            side.storage = storage[1 + side.place * each : 1 + (side.place + 1) * each]
        self._half = pool.halves[0]
        self._of_baseline: list[float] = []

    def measure(self) -> list[case_times.Block]:
        task, pool, context = self._task, self._pool, self._candidates[0].context
        pids = (*(side.worker.pid for side in self._candidates), task.baseline_worker.pid)
        roots = (*(side.worker.root for side in self._candidates), task.baseline_worker.root)
        with self._blame(self._baseline):
            self._sides.compile(self._baseline)
        with context.lock.hold(context.cancel), aside(task.timing_cpus):
            before = task.family.state(pids)
            self._blocks = {
                name: case_times.Block(
                    {},
                    before,
                    before,
                    calls=pool.calls,
                    warm=pool.warm_calls,
                    unverified=len(side.storage),
                )
                for name, side in self._by_name.items()
            }
            for half in pool.halves:
                for name, ahead in self._ahead.items():
                    with self._blame(name):
                        ahead.begin()
                if half.state:
                    self._change(half.state)
                self._sides.half, self._sides.calls_made = half, {}
                self._sides.call_counts.clear()
                for name, state in self._states.items():
                    with self._blame(name), self._awake(name):
                        state.begin(partial(self._sides.call_once, name))
                if self._ahead:
                    with self._blame(self._baseline), self._counted():
                        for _ in range(self._sides.call_counts[self._names[0]]):
                            self._sides.call_once(self._baseline)
                # the candidates stand still already
                with (
                    self._sides,
                    turns(
                        *roots, held=self._held, blame=lambda root: self._blame(self._baseline)
                    ) as turn,
                ):
                    self._rounds(half, turn)
                    for state in self._states.values():
                        state.look()
                for name, state in self._states.items():
                    with self._blame(name), self._awake(name):
                        state.end(half.state, self._sides.calls_made[name])
            after = task.family.state(pids)
            for name, memory in self._memory.items():
                memory.record(self._blocks[name], "", self._by_name[name].slots)
        with context.between_timings():
            self._verify()
            for name, state in self._states.items():
                with self._blame(name):
                    state.verify()
        if len(pool.halves) > 1:
            for side in self._candidates:
                with self._blame(side.name), self._awake(side.name):
                    set_state(side.worker, pool, 0)
        for name, block in self._blocks.items():
            block.after = after
            ahead_of = self._ahead.get(name)
            block.unseen_us = ahead_of.us if ahead_of else self._sides.unseen_us(name)
            block.state_open = name in self._states and bool(self._states[name].open)
            block.pairs = {
                self._baseline: list(
                    zip(self._of_baseline, self._by_name[name].round_us, strict=True)
                )
            }
        return list(self._blocks.values())

    def _change(self, state: int) -> None:
        for side in self._candidates:
            with self._blame(side.name), self._awake(side.name):
                set_state(side.worker, self._pool, state)
        with self._blame(self._baseline), self._counted():
            Drawer(self._task.baseline_worker).take_state(self._pool, state)

    @contextlib.contextmanager
    def _counted(self) -> Iterator[None]:
        """Count the baseline's time for all candidates."""
        with contextlib.ExitStack() as stack:
            for ahead in self._ahead.values():
                stack.enter_context(ahead.of_baseline())
            yield

    def _rounds(self, half: Half, turn: Turn) -> None:
        """Run the rounds of one half. Every side has one burst in each round: candidates on sets
        that no other candidate sees, the baseline on those of another round."""
        self._verify()
        self._half, pool, order = half, self._pool, list(self._names)
        settled_ns: dict[str, float] = {}
        for name in self._names:
            counted = self._counted() if name == self._baseline else contextlib.nullcontext()
            with self._blame(name), counted:
                burst_ns = settled_ns[name] = self._sides.settle(name, self._scratch, turn)
            if name == self._baseline and half is pool.halves[0]:
                self._most = min(self._most, paired.most_rounds(burst_ns, pool))
        for memory in self._memory.values():
            memory.look()
        for name, block in self._blocks.items():
            block.changed_at = len(self._by_name[name].round_us)
        for name, ahead in self._ahead.items():
            with self._blame(name):
                counts = self._sides.call_counts
                ahead.settled(counts[name], counts[self._baseline])
        rounds, number = paired.rounds_of(half, pool, self._most), 0
        offset, between = self._rng.randrange(rounds), 0 if rounds == 1 else -1
        cuts: dict[int, int] = {}
        while number < rounds:
            if number == 1:
                # not by the turns in which heaps settled alone, as in `paired`
                if half is pool.halves[0]:
                    slowest_ns = max(
                        min(1e3 * side.round_us[-1] * pool.calls, settled_ns[side.name])
                        for side in self._candidates
                    )
                    self._most = min(self._most, paired.most_rounds(slowest_ns, pool))
                rounds = max(2, paired.rounds_of(half, pool, self._most))
                between = self._rng.randrange(1, rounds)
                states = list(self._states.values())
                cuts = states[0].draw_cuts(self._rng, rounds) if states else {}
            self._rng.shuffle(order)
            if number in cuts:
                for name in order:
                    group = self._pick_group(half.groups, name, number + offset)
                    self._cut_turn(name, group, cuts[number], turn)
                number += 1
                continue
            for name in order:
                state = self._states.get(name) if number == between else None
                self._copy_state(name, state, looks=number == between)
                group = self._pick_group(half.groups, name, number + offset)
                self._note(name, self._time_burst(name, group, turn))
                if state is not None:
                    state.look_between(len(self._sides.calls_made[name]))
            number += 1
        for name, ahead in self._ahead.items():
            at = self._blocks[name].changed_at
            own_us, baseline_us = self._by_name[name].round_us[at:], self._of_baseline[at:]
            ahead.spread(own_us, baseline_us, pool.warm_calls + pool.calls)
        for _ in range(min(rounds, self._sides.NULL_TURNS)):
            with self._blame(self._baseline):
                nothing = self._sides.time_empty_calls(turn)
            for block in self._blocks.values():
                block.null_ns += nothing
        alone = pool.single_call_groups if half is pool.halves[-1] else []
        calls = len(alone) // len(self._candidates)
        states = list(self._states.values())
        look_rounds = states[0].looks_alone(self._rng, calls) if states else ()
        for number in range(calls):
            self._rng.shuffle(order)
            for name in order:
                state = self._states.get(name) if number in look_rounds else None
                self._copy_state(name, state, looks=number in look_rounds)
                group = self._pick_group(alone, name, number)
                us = self._time_burst(name, group, turn).inside_ns / 1e3
                if state is not None:
                    state.look_between(len(self._sides.calls_made[name]))
                for side_name, block in self._blocks.items():
                    if name in (side_name, self._baseline):
                        block.alone_us.setdefault("" if name == side_name else name, []).append(us)
        for side in self._candidates:
            with self._blame(side.name):
                timed_outputs.raise_if_changed(
                    self._case.name, self._sides.outputs_are_intact(side.name)
                )

    def _cut_turn(self, name: str, group: Group, calls: int, turn: Turn) -> None:
        """Let the turn of a side end early, and look at a candidate's state."""
        with self._blame(name):
            intact = self._sides.cut_turn(name, group.sets, calls, self._scratch, turn)
            if name in self._states:
                timed_outputs.raise_if_changed(self._case.name, intact)
                self._states[name].look_between(len(self._sides.calls_made[name]))

    def _copy_state(self, name: str, state: timed_state.TimedState | None, *, looks: bool) -> None:
        """Let a device copy a candidate's state behind its next burst, and as much behind the
        baseline's."""
        if state is not None:
            self._sides.also[name] = state.copies()
        elif looks and name == self._baseline and self._states:
            self._sides.also[name] = next(iter(self._states.values())).copies()

    def _pick_group(self, groups: Sequence[Group], name: str, number: int) -> Group:
        """Return the sets of a side in a round. Candidates get different ones, since candidates of
        one author could pass results to each other, for example by numbers of descriptors or pages
        that all processes of a machine can see."""
        count = len(self._candidates)
        rounds = len(groups) // count
        side = self._by_name.get(name)
        place, later = (side.place, 0) if side else (number % count, max(1, rounds // 2))
        return groups[(number + later) % rounds * count + place]

    def _time_burst(self, name: str, group: Group, turn: Turn) -> Burst:
        side = self._by_name.get(name)
        place = self._scratch if side is None else side.storage[len(side.pending)]
        with self._blame(name):
            result = self._sides.burst(name, group.sets, place, turn)
            if side is not None:
                timed_outputs.raise_if_changed(self._case.name, result.intact)
                side.pending.append((place, group))
        if side is not None and len(side.pending) == len(side.storage):
            self._verify(side)
        return result

    def _note(self, name: str, result: Burst) -> None:
        pool = self._pool
        us = result.inside_ns / 1e3 / pool.calls
        unmeasured_ns = result.unmeasured_ns - pool.warm_calls * result.inside_ns / pool.calls
        if name == self._baseline:
            self._of_baseline.append(us)
        else:
            self._by_name[name].round_us.append(us)
        for side_name, block in self._blocks.items():
            if name not in (side_name, self._baseline):
                continue
            if pool.one_by_one:
                block.unmeasured_ns.setdefault("" if name == side_name else name, []).append(
                    unmeasured_ns
                )
            if name == self._baseline:
                block.gap_ns.append(float(result.outside_ns - result.inside_ns))
            paired.note(block, result, pool, self._half, candidate=name == side_name)

    def _verify(self, *sides: _Side) -> None:
        """Verify the pending outputs."""
        for side in sides or self._candidates:
            with self._blame(side.name):
                timed_outputs.verify_outputs(
                    self._case.name,
                    self._pool,
                    side.pending,
                    self._half,
                    side.slots,
                    self._task.drawer,
                )

    def _awake(self, name: str) -> contextlib.AbstractContextManager[None]:
        """Return a context in which a candidate runs, and no other one."""
        side = self._by_name.get(name)
        return contextlib.nullcontext() if side is None else self._held.turn(side.worker.root)

    @contextlib.contextmanager
    def _blame(self, name: str) -> Iterator[None]:
        """Attribute errors inside the block: a candidate's are its failure, the baseline's are an
        error of the evaluator."""
        side = self._by_name.get(name)
        try:
            if side is None:
                yield
            else:
                with _attribute_failures(self._case, side.place, side.context, side.worker):
                    yield
        except _WORKERS as error:
            raise paired.BaselineLost(
                f"baseline {name} {str(error) or 'did not answer before the deadline'}"
            ) from error


def _is_gone(worker: Worker) -> bool:
    """Return whether a worker has ended or is ending: a kill takes some time."""
    return is_gone(worker.root) or worker.has_ended


@contextlib.contextmanager
def losing(place: int) -> Iterator[None]:
    """Attribute a failure inside the block to the candidate at this place."""
    try:
        yield
    except Failure as failure:
        raise Lost(place, failure) from failure


@contextlib.contextmanager
def _attribute_failures(
    case: Case, place: int, context: StageContext, worker: Worker
) -> Iterator[None]:
    """Turn any error of the worker inside the block into this candidate's failure."""
    try:
        with losing(place):
            yield
    except timed_outputs.WrongWhenTimed as wrong:
        raise Lost(place, blocks.timed_failure(wrong, "wrong while it was timed")) from wrong
    except _WORKERS as error:
        where = f"case {case.name}, timed"
        raise Lost(
            place,
            explain(
                error,
                where,
                worker.log(),
                worker.log_overflowed,
                context.builds.records,
                context.language,
            ),
        ) from error
