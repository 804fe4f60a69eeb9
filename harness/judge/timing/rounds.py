"""The interleaved rounds of one block. In each of them every side, candidates and baselines, has
one burst, in random order and on inputs that it has not seen before."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

from ..exchange.case_pool import CasePool
from ..exchange.input_sets import Group, Half
from ..exchange.slots import Slots
from ..figures.block import Block
from ..processes.freezing import Turn
from ..processes.worker import Worker
from ..tasks.drawer import Drawer
from ..tasks.timing_plan import BURSTS
from .ahead import Ahead
from .memory_use import MemoryUse
from .sides import Burst, Sides
from .timed_outputs import PENDING_BYTES, raise_if_changed, verify_outputs
from .timed_state import TimedState

# limit on one side's calls in a block, after BURSTS bursts: a slow candidate needs no more
MOST_SECONDS = 0.5
LOOKS = 3  # readings of a device's memory in each half, in random rounds
Blame = Callable[[str], AbstractContextManager[None]]


@dataclass
class TimedCandidate:
    """A candidate in one block. name: its name among the sides, "" for the first. place: its number
    among the candidates. attribute: a context that attributes errors to it. state, ahead: of what
    calls update, None if nobody watches it. storage: for outputs that wait to be verified, which
    are pending."""

    place: int
    worker: Worker
    slots: Slots
    attribute: Callable[[], AbstractContextManager[None]] = contextlib.nullcontext
    state: TimedState | None = None
    ahead: Ahead | None = None
    storage: Sequence[Any] = ()
    pending: list[tuple[Any, Group]] = field(default_factory=list)

    @property
    def name(self) -> str:
        return f"candidate {self.place}" if self.place else ""


class Rounds:
    """The rounds of one block. blocks: of each candidate, for its figures. baselines: the first
    one's gap between the clocks is noted. drawer: of the sets, None if outputs need not be right.
    blame: a context that attributes a side's errors."""

    def __init__(
        self,
        pool: CasePool,
        sides: Sides,
        candidates: Sequence[TimedCandidate],
        baselines: Sequence[str],
        blocks: Mapping[str, Block],
        memory: Mapping[str, MemoryUse],
        drawer: Drawer | None,
        blame: Blame,
        rng: random.Random,
    ) -> None:
        self._pool, self._sides, self._rng = pool, sides, rng
        self._candidates = {each.name: each for each in candidates}
        self._baselines, self._blocks, self._memory = baselines, blocks, memory
        self._drawer, self._blame = drawer, blame
        self._order = [*self._candidates, *baselines]  # shuffled in each round
        self._half = pool.halves[0]
        # on both halves together
        self._most = len(pool.timing) // len(candidates)
        self.times_us: dict[str, list[float]] = {name: [] for name in self._order}
        self._states = {each.name: each.state for each in candidates if each.state is not None}
        self._first_state = next(iter(self._states.values()), None)
        self._scratch = self._share_storage()

    def _share_storage(self) -> Any:
        """Give each candidate storage for unverified outputs, and return a place for those of the
        baselines, which are copied alike."""
        pool, candidates = self._pool, list(self._candidates.values())
        calls = pool.warm_calls + pool.calls
        limit = PENDING_BYTES // (calls * pool.slot_bytes * len(candidates))
        each = max(1, min(self._most, limit))
        # at once, since all slots share their storage
        scratch, *places = candidates[0].slots.storage(1 + each * len(candidates), calls)
        for number, candidate in enumerate(candidates):
            candidate.storage = places[number * each : (number + 1) * each]
            self._blocks[candidate.name].unverified_rounds = each
        return scratch

    def run(self, half: Half, turn: Turn) -> None:
        """Run the rounds of one half. Errors are attributed by `blame`; outputs and state that turn
        out wrong raise WrongWhenTimed inside it."""
        self.verify()
        self._half, pool = half, self._pool
        settled_ns = self._settle(turn)
        for memory in self._memory.values():
            memory.look()
        for name, state in self._states.items():
            with self._blame(name):
                if state.renew(half.state, self._sides.calls_made[name]):
                    self._sides.calls_made[name] = []
                    if not self._sides.is_idle():
                        state.distrust()
        rounds = rounds_of(half, pool, self._most)
        offset, number = self._rng.randrange(rounds), 0
        between, cuts = 0 if rounds == 1 else -1, dict[int, int]()
        memory_looks: Sequence[int] = ()
        while number < rounds:
            self._rng.shuffle(self._order)
            if number in cuts:
                self._cut_turns(number + offset, cuts[number], turn)
            else:
                # while calls are queued: a candidate may release again what it uses
                looks = self._memory if number in memory_looks else {}
                self._sides.watches = {name: memory.look for name, memory in looks.items()}
                self._round(number + offset, turn, looks=number == between)
            number += 1
            if number == 1 < rounds:
                self._limit_rounds(self._slowest_ns(settled_ns))
                rounds = max(2, rounds_of(half, pool, self._most))
                if self._first_state is not None:
                    cuts = self._first_state.draw_cuts(self._rng, rounds)
                between = self._rng.choice([n for n in range(1, rounds) if n not in cuts])
                memory_looks = self._rng.sample(range(1, rounds), min(LOOKS, rounds - 1))
        self._sides.watches = {}
        self._spread()
        # not between the rounds, since they would warm up one side's process
        for _ in range(min(rounds, self._sides.NULL_TURNS)):
            with self._blame(self._baselines[0]):
                nothing = self._sides.time_empty_calls(turn)
            for block in self._blocks.values():
                block.null_ns += nothing
        self._calls_alone(pool.single_call_groups if half is pool.halves[-1] else [], turn)
        for name in self._candidates:
            with self._blame(name):
                self._require_intact(self._sides.outputs_are_intact(name))

    def verify(self, *candidates: TimedCandidate) -> None:
        """Verify the pending outputs, of all candidates by default."""
        for candidate in candidates or self._candidates.values():
            if self._drawer is None:
                candidate.pending.clear()
                continue
            with self._blame(candidate.name):
                verify_outputs(
                    self._pool.name,
                    self._pool,
                    candidate.pending,
                    self._half,
                    candidate.slots,
                    self._drawer,
                )

    def _settle(self, turn: Turn) -> dict[str, float]:
        """Let the heaps of all sides settle. Returns the nanoseconds of each candidate's last
        burst."""
        sides, settled_ns = self._sides, dict[str, float]()
        for name in [*self._candidates, *self._baselines]:
            # of candidates, all time counts
            is_first = name == self._baselines[0]
            counted = self.count_baseline() if is_first else contextlib.nullcontext()
            with self._blame(name), counted:
                burst_ns = sides.settle(name, self._scratch, turn)
            if name in self._candidates:
                settled_ns[name] = burst_ns
            # on a device, where the judge's clock times these bursts as well
            if name not in self._candidates or self._pool.shared:
                self._limit_rounds(burst_ns)
        for name, candidate in self._candidates.items():
            self._blocks[name].changed_at = len(self.times_us[name])
            if candidate.ahead is not None:
                with self._blame(name):
                    counts = sides.call_counts
                    candidate.ahead.settled(counts[name], counts[self._baselines[0]])
        return settled_ns

    @contextlib.contextmanager
    def count_baseline(self) -> Iterator[None]:
        """Count the first baseline's time for the candidates whose time before the rounds
        counts."""
        with contextlib.ExitStack() as stack:
            for candidate in self._candidates.values():
                if candidate.ahead is not None:
                    stack.enter_context(candidate.ahead.of_baseline())
            yield

    def _spread(self) -> None:
        """Spread what candidates did before these rounds over the calls of the half."""
        calls = self._pool.warm_calls + self._pool.calls
        for name, candidate in self._candidates.items():
            if candidate.ahead is not None:
                at = self._blocks[name].changed_at
                own_us, baseline_us = (
                    self.times_us[side][at:] for side in (name, self._baselines[0])
                )
                candidate.ahead.spread(own_us, baseline_us, calls)

    def _slowest_ns(self, settled_ns: Mapping[str, float]) -> float:
        """Return the time of the slowest candidate's burst: not by the turns in which its heap
        settled alone, which nobody bills, so that who burns time in them would have few rounds;
        another program may have disturbed either."""
        calls = self._pool.calls
        return max(
            min(1e3 * self.times_us[name][-1] * calls, settled_ns[name])
            for name in self._candidates
        )

    def _limit_rounds(self, burst_ns: float) -> None:
        """Let a slow side have few rounds, if none of the second half has begun."""
        if self._half is self._pool.halves[0]:
            self._most = min(self._most, most_rounds(burst_ns, self._pool))

    def _round(self, number: int, turn: Turn, *, looks: bool) -> None:
        """Let every side have a burst. looks: also look at the state behind it."""
        if looks:
            self._copy_state()
        for name in self._order:
            result = self._burst(name, self._group(self._half.groups, name, number), turn)
            self._note(name, result)
            if looks:
                self._look_at_state(name)

    def _calls_alone(self, groups: Sequence[Group], turn: Turn) -> None:
        """Time calls of a device as bursts of their own."""
        count = len(groups) // len(self._candidates)
        state = self._first_state
        state_looks = state.looks_alone(self._rng, count) if state is not None else ()
        for number in range(count):
            self._rng.shuffle(self._order)
            if number in state_looks:
                self._copy_state()
            for name in self._order:
                group = self._group(groups, name, number, together=True)
                result = self._burst(name, group, turn)
                if number in state_looks:
                    self._look_at_state(name)
                for side, block in self._blocks_of(name):
                    block.alone_us.setdefault(side, []).append(result.inside_ns / 1e3)
        for name, block in self._blocks.items():
            block.alone_saved_us = self._sides.alone_saved_ns / 1e3
            block.alone_unseen_us = self._sides.alone_unseen_us(name)

    def _cut_turns(self, number: int, calls: int, turn: Turn) -> None:
        """Let the turns of a round end early, of all sides so that their caches stay alike, and
        look at the state that they leave."""
        for name in self._order:
            group = self._group(self._half.groups, name, number)
            with self._blame(name):
                intact = self._sides.cut_turn(name, group.sets, calls, self._scratch, turn)
                if name in self._candidates:
                    self._require_intact(intact)
            self._look_at_state(name)

    def _copy_state(self) -> None:
        """Let a device copy the candidates' state behind their next bursts, and as much behind
        those of the baselines, so that each side has it."""
        if not self._pool.shared:
            return
        copies = {name: state.copies() for name, state in self._states.items()}
        self._sides.also.update(copies)
        if copies:
            first = next(iter(copies.values()))
            self._sides.also.update(dict.fromkeys(self._baselines, first))

    def _look_at_state(self, name: str) -> None:
        """Look at what a candidate's calls have left so far, if they update something."""
        if name in self._states:
            with self._blame(name):
                self._states[name].look_between(len(self._sides.calls_made[name]))

    def _group(
        self, groups: Sequence[Group], name: str, number: int, *, together: bool = False
    ) -> Group:
        """Return the sets of a side in a round. Candidates get different ones, since those of one
        author could pass results to each other, for example by numbers of descriptors or pages that
        all processes of a machine can see; baselines those of later rounds, so that no side finds
        caches warm, or with `together` those of a candidate: a device's caches are cleared."""
        count = len(self._candidates)
        rounds = len(groups) // count
        if name in self._candidates:
            place, later = self._candidates[name].place, 0
        else:
            step = max(1, rounds // (len(self._baselines) + 1))
            place = number % count
            later = 0 if together else step * (1 + self._baselines.index(name))
        return groups[(number + later) % rounds * count + place]

    def _burst(self, name: str, group: Group, turn: Turn) -> Burst:
        candidate = self._candidates.get(name)
        place = candidate.storage[len(candidate.pending)] if candidate else self._scratch
        with self._blame(name):
            result = self._sides.burst(name, group.sets, place, turn)
            if candidate is not None:
                self._require_intact(result.intact)
        if candidate is not None:
            candidate.pending.append((place, group))
            if len(candidate.pending) == len(candidate.storage):
                self.verify(candidate)
        return result

    def _require_intact(self, intact: bool) -> None:
        """Raise WrongWhenTimed if outputs changed after they were returned."""
        if self._drawer is not None:
            raise_if_changed(self._pool.name, intact)

    def _blocks_of(self, name: str) -> list[tuple[str, Block]]:
        """Return the blocks to which a side's bursts belong, with its name there: its own one, or
        all of them for a baseline."""
        if name in self._candidates:
            return [("", self._blocks[name])]
        return [(name, block) for block in self._blocks.values()]

    def _note(self, name: str, result: Burst) -> None:
        """Add a burst to the figures."""
        pool, calls = self._pool, self._pool.calls
        self.times_us[name].append(result.inside_ns / 1e3 / calls)
        for side, block in self._blocks_of(name):
            if pool.one_by_one:
                usual_ns = pool.warm_calls * result.inside_ns / calls
                block.unmeasured_ns.setdefault(side, []).append(result.unmeasured_ns - usual_ns)
                block.late_ns.setdefault(side, []).append(float(result.late_ns))
            if side == self._baselines[0]:
                block.gap_ns.append(float(result.outside_ns - result.inside_ns))
            if side:
                block.baseline_faults.append(result.minor_faults / calls)
                block.busy.append(result.busy)
            else:
                _note_own(block, result, pool, self._half)
            block.switches += result.switches


def most_rounds(burst_ns: float, pool: CasePool) -> int:
    """Return the rounds for which there is time with bursts of this length."""
    turn_ns = burst_ns * (1 + pool.warm_calls / pool.calls)
    return max(BURSTS, round(1e9 * MOST_SECONDS / max(turn_ns, 1)))


def rounds_of(half: Half, pool: CasePool, most: int) -> int:
    """Return the rounds of a half, of so many of both together."""
    later_rounds = most // 2 if len(pool.halves) > 1 else 0
    return later_rounds if half.state else most - later_rounds


def _note_own(block: Block, result: Burst, pool: CasePool, half: Half) -> None:
    """Add a burst of the candidate to its block's figures."""
    calls = pool.calls
    block.inner_ns.append(float(result.inside_ns))
    block.outer_ns.append(float(result.outside_ns))
    block.process_clock_ns += [float(result.process_clock_ns)] if result.process_clock_ns else []
    block.faults.append(result.minor_faults / calls)
    ready = result.ready
    found = ready.measured + ready.unmeasured
    alike_bytes = min(found, half.alike_bytes * calls) if found else 0
    usual_bytes = min(ready.early, half.usual_bytes * calls) if ready.early else 0
    block.ready_bytes.append(max(alike_bytes, usual_bytes, ready.mapped) / calls)
    # the time that unmeasured calls save is of use up to all of a measured call's outputs
    block.unknown_bytes.append(min(found / calls, pool.slot_bytes))
    block.launch_us.append(result.queued_ns / 1e3 / calls)
    block.waits.append(result.waits)
