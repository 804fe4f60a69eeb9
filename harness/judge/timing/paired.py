"""Paired timing: fresh candidate processes against the baselines, in random order, on inputs no
process has seen before.

On a CPU calls come one by one and the judge's clock gives the figure of both sides (see calls). A
call that waits for others is as long as the judge saw it.

On a device that shares memory with the judge its clock gives the figure of a burst (see
device_slots). Elsewhere on a device the process's own events do, and the judge's clock, from
handing over the inputs to holding the outputs, bounds it: a figure that it does not reproduce is
replaced by what it saw, and one far beyond its noise is an accusation. An advantage within what the
judge's clock leaves open is not called faster. A burst's inputs are there together; calls that are
a burst of their own must confirm its figure.
"""

from __future__ import annotations

import contextlib
import random
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ...targets.state import DeviceState, Disturbance, disturbances
from ...types import Case
from ..correctness import oracle
from ..correctness.distance import same_bits
from ..device.locks import DeviceLock
from ..errors import CancelToken, Interfered, WorkerDied, WorkerFailed, WorkerTimeout
from ..exchange.case_pool import CasePool
from ..exchange.input_sets import Group, Half
from ..exchange.slots import Slots
from ..processes.freezing import Turn, aside, turns
from ..processes.worker import Worker
from ..tasks.drawer import BURSTS
from ..tasks.opening import OpenTask
from . import statistics
from .runners import InBursts, OneByOne, Queued, Sides, Timed

if TYPE_CHECKING:
    import torch

PROCESSES = 3
OTHER = "other candidate"
# of one side's calls in a block, where that is enough for BURSTS: a slow candidate needs no more
MOST_SECONDS = 0.5
# Of what the baseline's unmeasured calls take beyond measured ones: honest candidates that use
# threads took 0.5 to 0.65 of it more in the median, others up to 0.4.
COLD_SHARE = 0.5
KEPT_BYTES = 32 << 20  # of timed outputs that wait for being verified
# seen on an H200: handing over 160 MB took one honest process 200 us longer than the other, of some
# 40 ms
GAP_NOISE = 0.03
# excess of the outer clock that is more than the noise of messages
HIDDEN_SHARE, HIDDEN_NS = 0.25, 100_000
# Of a device's call alone beside one of a burst: honest ones came to 0.7 to 1.05 on an H200, merged
# ones to 4 and more.
ALONE_NOISE = 1.4
BUSY_SHARE = 0.1  # of the baselines' bursts, before which the device was not idle
# on a CPU: below it a call that is longer than its bill has waited for what a hypervisor took
WAITING = 1.1


@dataclass
class Block:
    """One candidate process on one case: raw figures of its rounds, and the device's state before
    and after them.

    pairs: by baseline, (baseline, candidate) microseconds a call by the inner clock. inner_ns,
    outer_ns: the candidate's bursts by both clocks; said_ns: what its process said, where neither
    is its own. gap_ns: what lies between the clocks for the baseline. calls, warm: measured in a
    turn, and not measured before them. ahead_ns: by side, what the latter take beyond as many
    measured ones. alone_us: by side ("" is the candidate), a device's calls that were a burst of
    their own. busy: of the baselines' bursts on a device. launch_us: a call's share of the host's
    time to issue the burst. warm_us, end_to_end_us: by side, with warm caches, and on a device from
    the call to its end as a caller sees it. dispatch_us: of an exported package, what deciding
    where a call goes takes.
    """

    pairs: dict[str, list[tuple[float, float]]]
    before: DeviceState
    after: DeviceState
    inner_ns: list[float] = field(default_factory=list)
    outer_ns: list[float] = field(default_factory=list)
    said_ns: list[float] = field(default_factory=list)
    gap_ns: list[float] = field(default_factory=list)
    ahead_ns: dict[str, list[float]] = field(default_factory=dict)
    alone_us: dict[str, list[float]] = field(default_factory=dict)
    faults: list[float] = field(default_factory=list)
    launch_us: list[float] = field(default_factory=list)
    baseline_faults: list[float] = field(default_factory=list)
    busy: list[bool] = field(default_factory=list)
    switches: int = 0
    calls: int = 1
    warm: int = 0
    null_ns: list[tuple[int, int]] = field(default_factory=list)
    warm_us: dict[str, float] = field(default_factory=dict)
    end_to_end_us: dict[str, float] = field(default_factory=dict)
    dispatch_us: dict[str, float] = field(default_factory=dict)

    def ahead_us(
        self, difference: Callable[[Sequence[float], Sequence[float]], float], *baselines: str
    ) -> float:
        """What the candidate's unmeasured calls take beyond measured ones and the baselines' do
        not, by this difference of the two sides' rounds. Spread over all calls of a turn: a
        measured call and its share are what they all take on average. 0 on a device."""
        others = [ns for name in baselines for ns in self.ahead_ns.get(name, ())]
        return (
            difference(self.ahead_ns[""], others) / 1e3 / (self.warm + self.calls)
            if others
            else 0.0
        )

    @property
    def disturbances(self) -> tuple[Disturbance, ...]:
        """What else had a hand in these figures, told from the device's state and never from the
        figures."""
        busy, bursts = sum(self.busy), len(self.busy)
        text = f"a kernel of another process ran before {busy} of {bursts} bursts of the baseline"
        others = (Disturbance("foreign_process", text),) if self.contended else ()
        return (*disturbances(self.before, self.after), *others)

    @property
    def contended(self) -> bool:
        """Whether somebody had work for the device while the baseline's turn was."""
        return sum(self.busy) > BUSY_SHARE * len(self.busy)


def beside(own: Block, other: Block) -> Block:
    """A candidate's block as if another candidate, timed in the same rounds, had been its baseline,
    by the name OTHER."""
    each, theirs = ([us for _, us in next(iter(block.pairs.values()))] for block in (own, other))
    alone = {"": own.alone_us[""], OTHER: other.alone_us[""]} if own.alone_us else {}
    ahead = {"": own.ahead_ns[""], OTHER: other.ahead_ns[""]} if own.ahead_ns else {}
    return replace(
        own, pairs={OTHER: list(zip(theirs, each, strict=True))}, ahead_ns=ahead, alone_us=alone
    )


@dataclass
class CaseTimes:
    """The blocks of one case that count, one for each fresh candidate process. repeated: how many
    others were measured again. earlier: rounds of other evaluations under the same key, by baseline
    and process, as they were `confirmed`."""

    blocks: list[Block] = field(default_factory=list)
    repeated: int = 0
    earlier: Mapping[str, Sequence[Sequence[tuple[float, float]]]] = field(default_factory=dict)

    def pairs(self, baseline: str) -> list[list[tuple[float, float]]]:
        """By process; the later ones of a confirmation stand beside the strongest baseline
        alone."""
        return [b.pairs[baseline] for b in self.blocks if baseline in b.pairs]

    def all(self, figure: str) -> list[float]:
        """One figure of every burst, over all processes."""
        return [value for block in self.blocks for value in getattr(block, figure)]

    def beside(self, figure: str, side: str) -> float | None:
        """The median over the processes of a figure that each has once: warm_us or end_to_end_us of
        a side."""
        found = [
            getattr(block, figure)[side] for block in self.blocks if side in getattr(block, figure)
        ]
        return statistics.median(found) if found else None

    @cached_property
    def seen_ns(self) -> float:
        """What a burst's calls take at least, by the judge's clock with 97.5 % confidence, less the
        baseline's gap. Messages and other processes only ever add, so the lower quartiles are
        compared: a busy machine accuses nobody. Two processes hand the same bytes over with
        different speed, though: a part of the gap is doubtful."""
        outer, gaps = self.all("outer_ns"), self.all("gap_ns")
        if not outer:
            return 0.0
        return max(
            0.0, statistics.least_difference(outer, gaps) - GAP_NOISE * statistics.median(gaps)
        )

    @property
    def nothing_us(self) -> tuple[float, float] | None:
        """What a call that does nothing takes, and how much of it passes inside the worker; of
        baselines' processes."""
        found = [each for block in self.blocks for each in block.null_ns]
        return (
            (
                statistics.median([a for a, _ in found]) / 1e3,
                statistics.median([b for _, b in found]) / 1e3,
            )
            if found
            else None
        )

    @property
    def open_us(self) -> float:
        """By how much a call may be longer than its figure, and the judge's clock would not show
        it. On a CPU that clock gives the figure; of the evaluator's own part of a call a candidate
        could save what passes inside its process, and be ahead by what cold caches explain, or by
        more that too few rounds show for the figure to count it. On a device it gives the figure
        itself: only the whole burst is known, with inputs and outputs moved."""
        if self.nothing_us is not None:
            seen = [block.ahead_us(statistics.difference, *block.pairs) for block in self.blocks]
            return self.nothing_us[1] + max(self.cold_us, statistics.median(seen))
        gaps = [
            (out - own) / block.calls / 1e3
            for block in self.blocks
            for out, own in zip(block.outer_ns, block.inner_ns, strict=True)
        ]
        return max(0.0, statistics.quantile(gaps, 0.25)) if gaps else 0.0

    @property
    def cold_us(self) -> float:
        """What a candidate's unmeasured calls may take beyond the baseline's, for each call of a
        turn: cold caches cost one process more than another."""
        found = [
            ns
            for block in self.blocks
            for side, values in block.ahead_ns.items()
            if side
            for ns in values
        ]
        return (
            COLD_SHARE
            * max(0.0, statistics.median(found))
            / 1e3
            / (self.blocks[0].warm + self.blocks[0].calls)
            if found
            else 0.0
        )

    @property
    def claimed_ns(self) -> float:
        """What a burst's calls take by the candidate's own clock."""
        return statistics.median(self.all("inner_ns"))

    def clock_disagrees(self, copying_us: float = 0.0) -> bool:
        """Whether the judge's clock saw so much more that it is an accusation. copying_us: a call's
        outputs, from memory: stores that pass the caches by make handing over so much slower than
        the baseline's. The figure is raised all the same."""
        call_us = statistics.median(
            [own for pairs in self.blocks[0].pairs.values() for _, own in pairs]
        )
        copying_ns = copying_us * self.claimed_ns / max(call_us, 1e-3)
        return (
            self.seen_ns - self.claimed_ns > HIDDEN_SHARE * self.claimed_ns + HIDDEN_NS + copying_ns
        )

    @property
    def clock_factor(self) -> float:
        """The factor from what the candidate's own clock claims to what the judge's saw at least; 1
        where that is no more."""
        factor = max(1.0, self.seen_ns / max(self.claimed_ns, 1.0))
        return factor if self.nothing_us is None or factor > WAITING else 1.0

    def alone_factor(self, baseline: str) -> float:
        """The factor from a call's share of a burst to what it takes alone, less what is beyond
        noise for the baseline as well: a fixed cost of an event and a launch. 1 where calls are
        timed one by one anyway, or the difference is noise with 97.5 % confidence.

        By the clock that gives the figure: where that is the candidate's own, the judge's sees
        inputs and outputs moved, which takes many times as long as a short call."""
        blocks = [block for block in self.blocks if baseline in block.alone_us]
        calls = [
            pair
            for block in blocks
            for pair in zip(block.alone_us[""], block.alone_us[baseline], strict=True)
        ]
        if not calls:
            return 1.0
        together = [c - b for process in self.pairs(baseline) for b, c in process]
        alone = [c - b for c, b in calls]
        claimed = statistics.median([c for process in self.pairs(baseline) for _, c in process])
        if 1 + statistics.least_difference(alone, together, 0.5) / claimed <= ALONE_NOISE:
            return 1.0
        return 1 + (statistics.median(alone) - statistics.median(together)) / claimed

    def alone_open_us(self, baseline: str) -> float:
        """By how much a call alone may be longer than its share of a burst, beyond what is so for
        the baseline, with 97.5 % confidence: what merged calls may have saved, as far as the
        judge's clock can tell. 0 where calls are timed one by one, or the candidate's clock gives
        the figure."""
        blocks = [block for block in self.blocks if baseline in block.alone_us and block.null_ns]
        if not blocks:
            return 0.0
        alone = [
            c - b
            for block in blocks
            for c, b in zip(block.alone_us[""], block.alone_us[baseline], strict=True)
        ]
        together = [c - b for block in blocks for b, c in block.pairs[baseline]]
        return max(0.0, -statistics.least_difference(together, alone, 0.5))

    def ahead_factor(self, baseline: str) -> float:
        """The factor for what a turn's unmeasured calls take beyond measured ones where the
        baseline's do not, and beyond what cold caches explain: work that is done there for the
        measured ones is a part of these. 1 on a device.

        The median over processes of what each shows by lower quartiles, with 97.5 % confidence.
        Others who want the core make half of a process's turns longer, and not a quarter shorter;
        and all rounds together would be surer than they may be, since those of one process share
        its luck."""
        shown = [
            block.ahead_us(statistics.least_difference, baseline)
            for block in self.blocks
            if baseline in block.pairs
        ]
        call_us = statistics.median([c for process in self.pairs(baseline) for _, c in process])
        return 1 + max(0.0, statistics.median(shown) - self.cold_us) / call_us

    def confirmed(self, baseline: str) -> list[list[tuple[float, float]]]:
        """The pairs, with the candidate's times raised to what the judge's clock saw at least, to
        what calls alone took, and by what was done ahead of them."""
        raised = max(self.clock_factor, self.alone_factor(baseline)) * self.ahead_factor(baseline)
        new = [[(b, c * raised) for b, c in process] for process in self.pairs(baseline)]
        return [*map(list, self.earlier.get(baseline, ())), *new]


class WrongWhenTimed(Exception):
    """A timed output was wrong."""

    def __init__(self, case: str, finding: oracle.Finding) -> None:
        off = (
            f" (off by {finding.error:.2g} of its norm, {finding.limit:.2g} allowed)"
            if finding.limit
            else ""
        )
        super().__init__(f"case {case}: an output of a timed call is wrong{off}: {finding.detail}")
        self.case, self.finding = case, finding


class BaselineLost(Exception):
    """A baseline did not answer: the evaluator's trouble, and nothing that the candidate did."""


@contextlib.contextmanager
def _side(name: str) -> Iterator[None]:
    """What a worker does wrong is its own: the candidate's ("") is a finding, a baseline's is
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
    seconds: float,
    change: Callable[[str, int], None],
    *,
    one_core: bool = True,
    checked: bool = True,
) -> Block:
    """One fresh candidate process against the reference worker, for one case. change: puts a side
    ("" is the candidate) into a state of the parameters, which is done in the middle where there
    are any. one_core: both are pinned to the timing core. checked: whether timed outputs have to be
    right. Raises WrongWhenTimed."""
    pool = task.pools[case.name]
    names = ["", *baselines]
    found: dict[str, list[float]] = {name: [] for name in names}
    processes = (worker.pid, task.baseline_worker.pid)
    kind = OneByOne if pool.one_by_one else Queued if pool.shared else InBursts
    sides = kind(
        task, pool, worker, slots, baselines, seconds, pool.halves[0].warm, one_core=one_core
    )
    # the first call of a fresh process may compile, which is never done under the lock
    for name in baselines:
        with _side(name):
            sides.compile(name)
    with lock.hold(cancel), aside(task.timing_cpus):
        before = task.family.state(processes)
        block = Block({}, before, before, calls=pool.calls, warm=pool.warm)
        rounds = _Rounds(
            case.name, pool, sides, names, rng, block, found, len(pool.timing), checked
        )
        for half in pool.halves:
            if half.state:
                # new callers afterwards: no worker takes commands while it makes calls
                for name in ("", baselines[0]):
                    with _side(name):
                        change(name, half.state)
            sides.warm = half.warm
            with sides, turns(worker.root, task.baseline_worker.root) as turn:
                rounds.run(half, turn)
        block.after = task.family.state(processes)
        for name in names:
            with _side(name):
                block.warm_us[name], waited, deciding = sides.hot(name)
            if task.family.NAME != "cpu":  # there a call is over when it returns
                block.end_to_end_us[name] = waited
            if deciding is not None:
                block.dispatch_us[name] = deciding
    rounds.verify()
    block.pairs = {name: list(zip(found[name], found[""], strict=True)) for name in baselines}
    return block


class _Rounds:
    """The rounds of one block: their figures go to `block` and `found`. most: of both halves
    together. Raises WrongWhenTimed."""

    def __init__(
        self,
        case: str,
        pool: CasePool,
        sides: Sides,
        names: list[str],
        rng: random.Random,
        block: Block,
        found: dict[str, list[float]],
        most: int,
        checked: bool,
    ) -> None:
        self._case, self._pool, self._sides, self._rng = case, pool, sides, rng
        self._names, self._baseline = list(names), names[1]
        self._block, self._found, self._most = block, found, most
        self._checked = checked
        # outputs of the candidate's bursts that were not looked at yet; each side's are put aside
        # alike
        size = (pool.warm + pool.calls) * pool.slot_bytes
        places = 1 + max(1, min(most, KEPT_BYTES // size))
        self._shelf = sides.slots[""].shelf(places, pool.warm + pool.calls)
        self._kept: list[tuple[Any, Group]] = []
        self._half = pool.halves[0]

    def run(self, half: Half, turn: Turn) -> None:
        """The rounds of one half."""
        self.verify()
        self._half, names, pool, sides = half, self._names, self._pool, self._sides
        for name in names:
            with _side(name):
                burst_ns = sides.settle(name, self._shelf[0], turn) * (1 + pool.warm / pool.calls)
            if half is pool.halves[0]:
                self._most = min(
                    self._most, max(BURSTS, round(1e9 * MOST_SECONDS / max(burst_ns, 1)))
                )
        later = self._most // 2 if len(pool.halves) > 1 else 0
        rounds = later if half.state else self._most - later
        offset = self._rng.randrange(rounds)
        for number in range(rounds):
            self._rng.shuffle(names)
            for position, name in enumerate(names):
                # each side reads sets that the others have not just read, so that nobody finds warm
                # caches
                shift = 0 if not name else (1 + position) * max(1, rounds // (len(names) + 1))
                result = self._timed(name, half.group(number + offset + shift), turn)
                self._found[name].append(result.inside_ns / 1e3 / pool.calls)
                if pool.one_by_one:
                    usual_ns = pool.warm * result.inside_ns / pool.calls
                    self._block.ahead_ns.setdefault(name, []).append(result.ahead_ns - usual_ns)
                if name == self._baseline:
                    self._block.gap_ns.append(float(result.outside_ns - result.inside_ns))
                note(self._block, result, pool.calls, candidate=not name)
        # not between the rounds: one side's process would be warmer for them
        for _ in range(min(rounds, sides.NULL_TURNS)):
            self._block.null_ns += sides.nothing(turn)
        for chosen in pool.alone if half is pool.halves[-1] else ():
            self._rng.shuffle(names)
            for name in names:
                self._block.alone_us.setdefault(name, []).append(
                    self._timed(name, chosen, turn).inside_ns / 1e3
                )

    def verify(self) -> None:
        """Look at the outputs that wait for it."""
        if not self._checked:
            self._kept.clear()
        verify_outputs(self._case, self._pool, self._kept, self._half, self._sides.slots[""])

    def _timed(self, name: str, chosen: Group, turn: Turn) -> Timed:
        kept, shelf = self._kept, self._shelf
        with _side(name):
            result = self._sides.burst(name, chosen.sets, shelf[0 if name else 1 + len(kept)], turn)
        if not name:
            if not result.kept and self._checked:
                text = "outputs changed after they were handed over: one buffer for several calls"
                raise WrongWhenTimed(
                    self._case, oracle.Finding("wrong.held_output", 1.0, 0.0, 0.0, text)
                )
            kept.append((shelf[1 + len(kept)], chosen))
            if len(kept) == len(shelf) - 1:
                self.verify()
        return result


def note(block: Block, result: Timed, calls: int, *, candidate: bool) -> None:
    """Add a burst of the candidate or of a baseline to the block's figures."""
    if candidate:
        block.inner_ns.append(float(result.inside_ns))
        block.outer_ns.append(float(result.outside_ns))
        block.said_ns += [float(result.said_ns)] if result.said_ns else []
        block.faults.append(result.minor_faults / calls)
        block.launch_us.append(result.queued_ns / 1e3 / calls)
    else:
        block.baseline_faults.append(result.minor_faults / calls)
        block.busy.append(result.busy)
    block.switches += result.switches


def verify_outputs(
    case: str, pool: CasePool, kept: list[tuple[Any, Group]], half: Half, slots: Slots
) -> None:
    """Every timed output against expectations rounded to the output's dtype, and those of the calls
    before against those of `half`'s set for them. Bursts that follow each other closely share what
    the machine does meanwhile, and a comparison takes longer than a small burst: so outputs are
    kept for a while."""
    right: list[torch.Tensor] = []
    warm, changed = half.warm, half.state != 0
    for memory, chosen in kept:
        outputs = slots.stacked(memory, pool.warm + len(chosen.sets))
        for number, (stack, allowed, usual) in enumerate(
            zip(outputs, pool.allowances, half.usual_rms, strict=True)
        ):
            for own in stack[: pool.warm]:
                if len(right) > number and same_bits(own, right[number]):
                    continue
                known = (warm.expected[number], warm.allowed[number], warm.framework[number])
                finding = oracle.compare(own, *known, pool.bitwise)
                _raise_if_wrong(case, finding, changed=changed)
                right = right if len(right) > number else [*right, own]
            timed, expected, framework = (
                stack[pool.warm :],
                chosen.expected[number],
                chosen.framework[number],
            )
            if pool.bitwise and framework is not None:
                if not same_bits(timed.to(framework.device), framework):
                    _raise_if_wrong(
                        case,
                        oracle.compare(timed, expected, allowed, framework, True),
                        changed=changed,
                    )
                continue
            families = [held.family for held in chosen.sets]
            for family in dict.fromkeys(families):
                calls = [call for call, other in enumerate(families) if other == family]
                some, own_usual = (
                    (allowed, usual) if family == "dense" else (pool.of_family[family][number], 0.0)
                )
                if oracle.surely_right(timed, expected, some, own_usual, framework, calls):
                    continue
                for call in calls:
                    limits = oracle.of_timed_call(some, expected[call], own_usual)
                    other = None if framework is None else framework[call]
                    _raise_if_wrong(
                        case,
                        oracle.compare(timed[call], expected[call], limits, other),
                        changed=changed,
                    )
    kept.clear()


def _raise_if_wrong(case: str, finding: oracle.Finding, *, changed: bool) -> None:
    if finding.signal is None:
        return
    if changed:
        finding = replace(
            finding,
            signal="wrong.stale_parameters",
            detail=f"after the parameters changed, {finding.detail}",
        )
    raise WrongWhenTimed(case, finding)


def strongest(case: Case) -> str:
    """The fastest baseline of the screening."""
    return min(case.baselines_us, key=lambda name: case.baselines_us[name])


def contenders(case: Case, *, every: bool) -> list[str]:
    """Baselines to time: all of them, or those that screening left within 5 % of the strongest. Not
    more: two that take turns in one process are warmer than a candidate between them, and honest
    ones were said to do work ahead of their calls."""
    ordered = sorted(case.baselines_us, key=lambda name: case.baselines_us[name])
    limit = case.baselines_us[ordered[0]] * 1.05
    return ordered if every else [name for name in ordered if case.baselines_us[name] <= limit][:2]


def fresh_rng() -> random.Random:
    """Order and bootstrap are not predictable from outside."""
    return random.Random(secrets.randbits(64))
