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
import random
import secrets
from collections.abc import Iterator, Sequence
from functools import partial

from ...types import Case
from ..candidate_workers import deadlines, set_state
from ..device.locks import DeviceLock, between_timings
from ..errors import CancelToken, Interfered, WorkerDied, WorkerFailed, WorkerTimeout
from ..exchange.input_sets import Half
from ..figures.block import Block
from ..processes.freezing import HeldProcesses, aside, turns
from ..tasks.drawer import Drawer
from ..tasks.open_task import OpenTask
from .ahead import Ahead
from .in_bursts import InBursts
from .memory_use import MemoryUse
from .one_by_one import OneByOne
from .queued import Queued
from .rounds import Rounds, TimedCandidate
from .timed_state import TimedState

PROCESSES = 3
WORKER_ERRORS = (WorkerFailed, WorkerDied, WorkerTimeout, Interfered)


class BaselineLost(Exception):
    """A baseline did not answer: an error of the evaluator that the candidate did not cause."""


def time_block(
    task: OpenTask,
    case: Case,
    candidates: Sequence[TimedCandidate],
    baselines: list[str],
    lock: DeviceLock,
    cancel: CancelToken | None,
    rng: random.Random,
    *,
    held: HeldProcesses | None = None,
    one_core: bool = True,
    checked: bool = True,
    hot: bool = False,
) -> list[Block]:
    """Time fresh processes of candidates against the baselines, for one case. Returns a block for
    each candidate.

    case: with its screening. held: has stopped the candidates' processes, which then run in their
    turns alone. one_core: all sides are pinned to the timing core. checked: timed outputs must be
    right. hot: also measure the figures shown beside the verdict, for which the sides make more
    calls; with one candidate only. Raises what the candidates' contexts make of their errors,
    WrongWhenTimed among them, and BaselineLost.
    """
    return _TimedBlock(
        task, case, candidates, baselines, rng, held=held, one_core=one_core, checked=checked
    ).measure(lock, cancel, hot=hot)


class _TimedBlock:
    """The candidates and the baselines on one case."""

    def __init__(
        self,
        task: OpenTask,
        case: Case,
        candidates: Sequence[TimedCandidate],
        baselines: list[str],
        rng: random.Random,
        *,
        held: HeldProcesses | None,
        one_core: bool,
        checked: bool,
    ) -> None:
        self._task, self._candidates, self._baselines = task, candidates, baselines
        self._pool = pool = task.pools[case.name]
        self._rng, self._held, self._drawer = rng, held, task.drawer if checked else None
        self._by_name = {each.name: each for each in candidates}
        kind = OneByOne if pool.one_by_one else Queued if pool.shared else InBursts
        first, *others = candidates
        self._sides = kind(
            task,
            pool,
            first.worker,
            first.slots,
            baselines,
            deadlines(case, pool),
            one_core=one_core,
        )
        for each in others:
            self._sides.join(each.name, each.worker, each.slots)
        self._sides.blame, self._sides.awake = self._blame, self._awake
        if checked and pool.updated:
            for each in candidates:
                with _losing_baseline("reference"):
                    each.state = TimedState(pool, each.worker, task.drawer)
                if pool.one_by_one and one_core:
                    each.ahead = Ahead(each.worker, task.baseline_worker)
        self._is_counted = any(each.ahead is not None for each in candidates)

    def measure(self, lock: DeviceLock, cancel: CancelToken | None, *, hot: bool) -> list[Block]:
        task, pool, sides = self._task, self._pool, self._sides
        # the first call of a fresh process may compile, which is never done under the lock
        for name in self._baselines:
            with self._blame(name):
                sides.compile(name)
        pids = (*(each.worker.pid for each in self._candidates), task.baseline_worker.pid)
        with lock.hold(cancel), aside(task.timing_cpus):
            before = task.family.state(pids)
            blocks = {
                name: Block({}, before, before, calls=pool.calls, warm=pool.warm_calls)
                for name in self._by_name
            }
            # whose the memory is that counts for no process, nobody knows of several
            memory = {
                each.name: MemoryUse(task, each.worker, candidate=len(self._candidates) == 1)
                for each in self._candidates
            }
            rounds = Rounds(
                pool,
                sides,
                self._candidates,
                self._baselines,
                blocks,
                memory,
                self._drawer,
                self._blame,
                self._rng,
            )
            for half in pool.halves:
                self._time_half(half, rounds)
            for name, block in blocks.items():
                block.after = task.family.state(pids)
                memory[name].record(block, "", self._by_name[name].slots)
                if hot:
                    self._add_hot(block)
        with between_timings(lock, task.family, cancel):
            rounds.verify()
            for name, candidate in self._by_name.items():
                if candidate.state is not None:
                    with self._blame(name), _losing_baseline("reference"):
                        candidate.state.verify()
        for name, block in blocks.items():
            state, ahead = self._by_name[name].state, self._by_name[name].ahead
            block.state_doubt = state.doubt if state is not None else ""
            block.unseen_us = ahead.us if ahead is not None else sides.unseen_us(name)
            block.host_us, block.alone_host_us = (
                {"": of(name), **{other: of(other) for other in self._baselines}}
                for of in (sides.host_us, sides.alone_host_us)
            )
            block.pairs = {
                other: list(zip(rounds.times_us[other], rounds.times_us[name], strict=True))
                for other in self._baselines
            }
        if len(pool.halves) > 1:
            for name in self._by_name:
                self._set_state(name, 0)
        return list(blocks.values())

    def _time_half(self, half: Half, rounds: Rounds) -> None:
        """Run the rounds of a half, and keep the state that they leave for the end."""
        sides, first = self._sides, self._baselines[0]
        sides.half, sides.calls_made = half, {}
        sides.call_counts.clear()
        for name, candidate in self._by_name.items():
            if candidate.ahead is not None:
                with self._blame(name):
                    candidate.ahead.begin()
        if half.state:
            # callers are started again afterwards: a worker in calls takes no commands
            for name in self._by_name:
                self._set_state(name, half.state)
            with self._blame(first), rounds.count_baseline():
                # of all baselines: they share a process
                Drawer(self._task.baseline_worker).take_state(self._pool, half.state)
        for name, candidate in self._by_name.items():
            if candidate.state is not None:
                with self._blame(name), self._awake(name):
                    candidate.state.begin(partial(sides.call_once, name))
        if self._is_counted:
            with self._blame(first), rounds.count_baseline():
                for _ in range(sides.call_counts[""]):
                    sides.call_once(first)
        roots = {each.worker.root: each.name for each in self._candidates}
        roots[self._task.baseline_worker.root] = first
        with (
            sides,
            turns(*roots, held=self._held, blame=lambda root: self._blame(roots[root])) as turn,
        ):
            rounds.run(half, turn)
            for name, candidate in self._by_name.items():
                if candidate.state is not None:
                    with self._blame(name):
                        candidate.state.look()
        for name, candidate in self._by_name.items():
            if candidate.state is not None:
                with self._blame(name), self._awake(name):
                    candidate.state.end(half.state, sides.calls_made[name])

    def _set_state(self, name: str, state: int) -> None:
        """Give a candidate the parameters of a half."""
        with self._blame(name), self._awake(name):
            set_state(self._by_name[name].worker, self._pool, state)

    def _add_hot(self, block: Block) -> None:
        """Measure what is shown beside the verdict, of all sides."""
        task, sides = self._task, self._sides
        for name in ("", *self._baselines):
            memory = MemoryUse(task, sides.workers[name], candidate=not name)
            with self._blame(name):
                block.warm_us[name], waited, deciding = sides.hot(name)
            if name:  # here, since baselines share a process and so their rounds' memory
                memory.record(block, name, sides.slots[name])
            if not task.family.SYNCHRONOUS:
                block.end_to_end_us[name] = waited
            if deciding is not None:
                block.dispatch_us[name] = deciding

    def _awake(self, name: str) -> contextlib.AbstractContextManager[None]:
        """Return a context in which a side runs, and no candidate beside it that is held."""
        if self._held is None or name not in self._by_name:
            return contextlib.nullcontext()
        return self._held.turn(self._by_name[name].worker.root)

    def _blame(self, name: str) -> contextlib.AbstractContextManager[None]:
        """Return a context that attributes errors: a candidate's are findings, a baseline's are
        not."""
        return self._by_name[name].attribute() if name in self._by_name else _losing_baseline(name)


@contextlib.contextmanager
def _losing_baseline(name: str) -> Iterator[None]:
    try:
        yield
    except WORKER_ERRORS as error:
        raise BaselineLost(
            f"baseline {name} {str(error) or 'did not answer before the deadline'}"
        ) from error


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
