"""What was measured of one case: the rounds of each process, and what they say together."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from ...targets.state import DeviceState, Disturbance, disturbances
from . import statistics

OTHER = "other candidate"
# Of what the baseline's unmeasured calls take beyond measured ones: honest candidates that use
# threads took 0.5 to 0.65 of it more in the median, others up to 0.4.
COLD_SHARE = 0.5
# seen on an H200: handing over 160 MB took one honest process 200 us longer than the other, of some
# 40 ms
GAP_NOISE = 0.03
# excess of the outer clock that is more than the noise of messages
HIDDEN_SHARE, HIDDEN_NS = 0.25, 100_000
# Of a device's call alone beside one of a burst: honest ones came to 0.7 to 1.05 on an H200, merged
# ones to 4 and more.
ALONE_NOISE = 1.4
# by which the memory of two processes of equal kernels may differ: heaps that were once used, and
# workspaces of libraries
USUAL_BYTES = 256 << 20
BUSY_SHARE = 0.1  # of the baselines' bursts, before which the device was not idle
# on a CPU: below it a call that is longer than its bill has waited for what a hypervisor took
WAITING = 1.1


@dataclass
class Block:
    """One candidate process on one case: raw figures of its rounds, and the device's state before
    and after them.

    pairs: by baseline, (baseline, candidate) microseconds a call by the inner clock. inner_ns,
    outer_ns: the candidate's bursts by both clocks; process_clock_ns: what its process said, where
    neither is its own. gap_ns: what lies between the clocks for the baseline. calls, warm: measured
    in a turn, and not measured before them. unmeasured_ns: by side, what the latter take beyond as
    many measured ones. alone_us: by side ("" is the candidate), a device's calls that were a burst
    of their own. busy: of the baselines' bursts on a device. launch_us: a call's share of the
    host's time to issue the burst. warm_us, end_to_end_us: by side, with warm caches, and on a
    device from the call to its end as a caller sees it. dispatch_us: of an exported package, what
    deciding where a call goes takes.
    """

    pairs: dict[str, list[tuple[float, float]]]
    before: DeviceState
    after: DeviceState
    inner_ns: list[float] = field(default_factory=list)
    outer_ns: list[float] = field(default_factory=list)
    process_clock_ns: list[float] = field(default_factory=list)
    gap_ns: list[float] = field(default_factory=list)
    unmeasured_ns: dict[str, list[float]] = field(default_factory=dict)
    alone_us: dict[str, list[float]] = field(default_factory=dict)
    faults: list[float] = field(default_factory=list)
    launch_us: list[float] = field(default_factory=list)
    baseline_faults: list[float] = field(default_factory=list)
    busy: list[bool] = field(default_factory=list)
    ready_bytes: list[float] = field(default_factory=list)
    """Of a call's outputs on a CPU, by round: the same in other draws, and in memory where they may
    have been before the call. See ReadyMemory."""
    switches: int = 0
    calls: int = 1
    warm: int = 0
    null_ns: list[tuple[int, int]] = field(default_factory=list)
    warm_us: dict[str, float] = field(default_factory=dict)
    end_to_end_us: dict[str, float] = field(default_factory=dict)
    dispatch_us: dict[str, float] = field(default_factory=dict)
    host_bytes: dict[str, int] = field(default_factory=dict)
    """By side, the most that its process held of the machine's memory, beyond what it began with
    and what the judge lends it."""
    device_bytes: dict[str, int] = field(default_factory=dict)
    """The same of a device's memory, where the driver tells."""

    def unmeasured_us(
        self, difference: Callable[[Sequence[float], Sequence[float]], float], *baselines: str
    ) -> float:
        """What the candidate's unmeasured calls take beyond measured ones and the baselines' do
        not, by this difference of the two sides' rounds. Spread over all calls of a turn: a
        measured call and its share are what they all take on average. 0 on a device."""
        others = [ns for name in baselines for ns in self.unmeasured_ns.get(name, ())]
        return (
            difference(self.unmeasured_ns[""], others) / 1e3 / (self.warm + self.calls)
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


def against(candidate: Block, opponent: Block) -> Block:
    """A candidate's block as if another candidate, timed in the same rounds, had been its baseline,
    by the name OTHER."""
    candidate_us, opponent_us = (
        [us for _, us in next(iter(block.pairs.values()))] for block in (candidate, opponent)
    )
    alone = {"": candidate.alone_us[""], OTHER: opponent.alone_us[""]} if candidate.alone_us else {}
    device = (
        {"": candidate.device_bytes[""], OTHER: opponent.device_bytes[""]}
        if candidate.device_bytes and opponent.device_bytes
        else {}
    )
    unmeasured = (
        {"": candidate.unmeasured_ns[""], OTHER: opponent.unmeasured_ns[""]}
        if candidate.unmeasured_ns
        else {}
    )
    return replace(
        candidate,
        pairs={OTHER: list(zip(opponent_us, candidate_us, strict=True))},
        unmeasured_ns=unmeasured,
        alone_us=alone,
        device_bytes=device,
    )


@dataclass
class CaseTimes:
    """The blocks of one case that count, one for each fresh candidate process. repeated: how many
    others were measured again. earlier: rounds of other evaluations under the same key, by baseline
    and process, as `confirmed_pairs` raised them."""

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

    def median_of(self, figure: str, side: str) -> float | None:
        """The median over the processes of a figure that each has once: warm_us or end_to_end_us of
        a side."""
        values = [
            getattr(block, figure)[side] for block in self.blocks if side in getattr(block, figure)
        ]
        return statistics.median(values) if values else None

    def most(self, figure: str, side: str) -> int | None:
        """The largest over the processes of a figure that each has once: host_bytes or device_bytes
        of a side; None where none has it."""
        values = [getattr(block, figure).get(side) for block in self.blocks]
        return max((each for each in values if each is not None), default=None)

    def prepared_share(self, baseline: str, nbytes: int) -> float:
        """The share of measured calls, 0 to 1, whose outputs of so many bytes may have been made
        ready while nothing was timed, in memory of a device that the candidate holds beyond the
        baseline: the largest of its processes. It can be filled anew before each half of the
        rounds."""
        share = 0.0
        for block in self.blocks:
            device_bytes, rounds = block.device_bytes, len(block.pairs.get(baseline, ()))
            more = (
                device_bytes[""] - device_bytes[baseline]
                if "" in device_bytes and baseline in device_bytes
                else 0
            )
            if rounds and more > USUAL_BYTES:
                calls = block.calls * math.ceil(rounds / 2)
                share = max(share, min(1.0, more / (calls * max(1, nbytes))))
        return share

    @property
    def ready_bytes(self) -> float:
        """Of a call's outputs on a CPU, what may have been there before in half of the rounds."""
        figures = sorted(self.all("ready_bytes"))
        return figures[len(figures) // 2] if figures else 0.0

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
        pairs = [each for block in self.blocks for each in block.null_ns]
        return (
            (
                statistics.median([a for a, _ in pairs]) / 1e3,
                statistics.median([b for _, b in pairs]) / 1e3,
            )
            if pairs
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
            unmeasured = [
                block.unmeasured_us(statistics.difference, *block.pairs) for block in self.blocks
            ]
            return self.nothing_us[1] + max(self.cold_us, statistics.median(unmeasured))
        gaps = [
            (outer - inner) / block.calls / 1e3
            for block in self.blocks
            for outer, inner in zip(block.outer_ns, block.inner_ns, strict=True)
        ]
        return max(0.0, statistics.quantile(gaps, 0.25)) if gaps else 0.0

    @property
    def cold_us(self) -> float:
        """What a candidate's unmeasured calls may take beyond the baseline's, for each call of a
        turn: cold caches cost one process more than another."""
        unmeasured = [
            ns
            for block in self.blocks
            for side, side_ns in block.unmeasured_ns.items()
            if side
            for ns in side_ns
        ]
        return (
            COLD_SHARE
            * max(0.0, statistics.median(unmeasured))
            / 1e3
            / (self.blocks[0].warm + self.blocks[0].calls)
            if unmeasured
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
            [us for pairs in self.blocks[0].pairs.values() for _, us in pairs]
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

    def unmeasured_factor(self, baseline: str) -> float:
        """The factor for what a turn's unmeasured calls take beyond measured ones where the
        baseline's do not, and beyond what cold caches explain: work that is done there for the
        measured ones is a part of these. 1 on a device.

        The median over processes of what each shows by lower quartiles, with 97.5 % confidence.
        Others who want the core make half of a process's turns longer, and not a quarter shorter;
        and all rounds together would be surer than they may be, since those of one process share
        its luck."""
        unmeasured = [
            block.unmeasured_us(statistics.least_difference, baseline)
            for block in self.blocks
            if baseline in block.pairs
        ]
        call_us = statistics.median([c for process in self.pairs(baseline) for _, c in process])
        return 1 + max(0.0, statistics.median(unmeasured) - self.cold_us) / call_us

    def confirmed_pairs(self, baseline: str) -> list[list[tuple[float, float]]]:
        """The pairs, with the candidate's times raised to what the judge's clock saw at least, to
        what calls alone took, and by what was done ahead of them."""
        raised = max(self.clock_factor, self.alone_factor(baseline)) * self.unmeasured_factor(
            baseline
        )
        new = [[(b, c * raised) for b, c in process] for process in self.pairs(baseline)]
        return [*map(list, self.earlier.get(baseline, ())), *new]
