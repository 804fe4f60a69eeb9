"""The measurements of one case: the rounds of each process, and what follows from them together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from statistics import fmean

from ...targets.state import DeviceState, Disturbance, disturbances
from . import statistics

OTHER = "other candidate"
# Tolerated excess of a candidate's unmeasured calls, as a share of the time that the baseline's
# take beyond measured ones: honest candidates that use threads took 0.5 to 0.65 of it in the
# median, others up to 0.4.
COLD_SHARE = 0.5
# Rounds from the middle of each half on that tell what a settled heap does. Of 15 and 32 rounds,
# honest processes found new memory in the first eight, and in few later ones; of four, in all.
LEAST_LATER = 8
# relative doubt about the gap: on an H200, transferring 160 MB took one honest process 200 us
# longer than another, of about 40 ms
GAP_NOISE = 0.03
# excess of the outer clock that is more than the noise of messages
HIDDEN_SHARE, HIDDEN_NS = 0.25, 100_000
# Ratio of a call alone on a device to one in a burst: honest calls came to 0.7 to 1.05 on an H200,
# merged ones to 4 and more.
ALONE_NOISE = 1.4
# difference in memory between two processes of equal kernels, by heaps that were used once and
# workspaces of libraries
USUAL_BYTES = 256 << 20
# The same by separate pools of a framework's allocator, such as one for each stream: 70 to 80 MiB
# were seen on an H100, of which the calls of a burst share the rest.
POOLS_BYTES = 64 << 20
# What a process on a device holds for the driver, kernels and libraries: 872 to 915 MiB on an H200
# for the smallest tasks, with torch 2.11.
PROCESS_BYTES = 1 << 30
BUSY_SHARE = 0.1  # tolerated share of baseline bursts before which the device was not idle
# on a CPU: a smaller excess of a call over its bill is time that the hypervisor took
WAITING = 1.1


@dataclass
class Block:
    """One candidate process on one case: raw figures of its rounds, and the device's state before
    and after them. Figures by side use "" for the candidate and the name for a baseline.

    pairs: by baseline, (baseline, candidate) microseconds per call by the inner clock. inner_ns,
    outer_ns: the candidate's bursts by both clocks. process_clock_ns: the times that its process
    reports, where neither clock is its own. gap_ns: the difference of the clocks for the baseline.
    calls, warm: the measured calls of a turn, and the unmeasured ones before them. unmeasured_ns:
    by side, the time of unmeasured calls beyond that of as many measured ones. alone_us: by side,
    a device's calls timed as separate bursts. busy: for each baseline burst on a device, whether
    the device was not idle. launch_us: a call's share of the host's time to issue the burst.
    warm_us: by side, a call with warm caches. end_to_end_us: by side, on a device from the call to
    its end as a caller sees it. dispatch_us: of an exported package, the time to choose the
    implementation of a call.
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
    """Of a call's outputs, by round: what may have been written before the call. See ReadyMemory
    and, for a device, Half.usual_bytes."""
    unknown_bytes: list[float] = field(default_factory=list)
    """Of a call's outputs, by round, on a CPU: all that lies where none lay before."""
    waits: list[bool] = field(default_factory=list)
    """For each of the candidate's bursts, whether its calls waited for a device themselves."""
    changed_at: int = 0
    """The number of rounds before the parameters changed, 0 if they did not."""
    switches: int = 0
    calls: int = 1
    warm: int = 0
    state_open: bool = False
    """Whether what the reference updates was known only from the candidate's own report, or may
    have been computed for many calls at once."""
    unseen_us: float = 0.0
    """What a call may have saved by work that nobody sees: before the rounds, see timing.ahead, and
    on a device in held slices and by taken memory, see Witness."""
    unverified: int = 0
    """The most rounds whose outputs were verified together, 0 if unknown: nobody watches a device
    while they are."""
    null_ns: list[tuple[int, int]] = field(default_factory=list)
    warm_us: dict[str, float] = field(default_factory=dict)
    end_to_end_us: dict[str, float] = field(default_factory=dict)
    dispatch_us: dict[str, float] = field(default_factory=dict)
    host_bytes: dict[str, int] = field(default_factory=dict)
    """By side, the peak host memory of its process, beyond what it began with and what the judge
    shares with it."""
    device_bytes: dict[str, int] = field(default_factory=dict)
    """The same for a device's memory, where the driver reports it."""
    unowned_bytes: int = 0
    """Of a device's memory, what no process accounts for: the candidate may hold it."""

    def unmeasured_us(self, baseline: str) -> float:
        """Return the time of the candidate's unmeasured calls beyond measured ones that exceeds the
        baseline's, in microseconds per call of a turn, with 97.5 % confidence; 0 on a device.
        Spread over all calls of a turn, it makes a measured call their average."""
        others = self.unmeasured_ns.get(baseline, ())
        if not others:
            return 0.0
        least_ns = statistics.least_difference(self.unmeasured_ns[""], others)
        return least_ns / 1e3 / (self.warm + self.calls)

    def hidden_us(self, baseline: str, us_per_byte: float) -> tuple[float, float]:
        """Return by how much the candidate's turns took longer than its figure, beyond the
        baseline's, in microseconds per call. The figure is the median of measured calls.

        The first number is for the median of turns: a turn is longer by its unmeasured calls and by
        what lay ready, at us_per_byte. All of it is added turn by turn, since each may hide its
        work in another way. The later turns of each half count on their own as well: by then heaps
        that settle give no memory of their own, so whatever lies where none lay before may have
        been ready. The second number is for the mean of turns, without what lay ready: work that a
        few turns do for all is in no median.
        """
        pairs = self.pairs.get(baseline, ())
        if not pairs:
            return 0.0, 0.0
        own_us, usual_us = [us for _, us in pairs], [us for us, _ in pairs]
        own, usual = self._whole_us("", own_us), self._whole_us(baseline, usual_us)
        figure, usual_figure = statistics.median(own_us), statistics.median(usual_us)
        ready = self.ready_bytes if len(self.ready_bytes) == len(own) else [0.0] * len(own)
        longer = [us + us_per_byte * nbytes for us, nbytes in zip(own, ready, strict=True)]
        hidden = statistics.median(longer) - figure
        later = self._later_rounds(len(own))
        if len(later) >= LEAST_LATER and len(self.unknown_bytes) == len(own):
            unknown = [own[n] + us_per_byte * max(ready[n], self.unknown_bytes[n]) for n in later]
            hidden = max(hidden, statistics.median(unknown) - figure)
        beyond = statistics.median(usual) - usual_figure
        return hidden - beyond, fmean(own) - figure - (fmean(usual) - usual_figure)

    def _whole_us(self, name: str, turns_us: Sequence[float]) -> list[float]:
        """Return the time of each turn of a side with its unmeasured calls, per call."""
        extra_ns, calls = self.unmeasured_ns.get(name, ()), self.warm + self.calls
        if len(extra_ns) != len(turns_us):
            return list(turns_us)
        return [us + ns / 1e3 / calls for us, ns in zip(turns_us, extra_ns, strict=True)]

    def _later_rounds(self, rounds: int) -> list[int]:
        """Return the rounds from the middle of each half on."""
        halves = ((0, self.changed_at), (self.changed_at, rounds))
        return [n for first, end in halves for n in range(first + -(-(end - first) // 2), end)]

    @property
    def disturbances(self) -> tuple[Disturbance, ...]:
        """What else affected these figures, decided by the device's state and never by the
        figures."""
        busy, bursts = sum(self.busy), len(self.busy)
        text = f"another process had the device beside {busy} of {bursts} bursts of the baseline"
        others = (Disturbance("foreign_process", text),) if self.contended else ()
        return (*disturbances(self.before, self.after), *others)

    @property
    def contended(self) -> bool:
        """Whether another process used the device during the baseline's turns."""
        return sum(self.busy) > BUSY_SHARE * len(self.busy)


def against(candidate: Block, opponent: Block) -> Block:
    """Return a candidate's block with another candidate, timed in the same rounds, as its baseline
    under the name OTHER."""
    candidate_us, opponent_us = (
        [us for _, us in next(iter(block.pairs.values()))] for block in (candidate, opponent)
    )
    alone = {"": candidate.alone_us[""], OTHER: opponent.alone_us[""]} if candidate.alone_us else {}
    # what a candidate holds beyond another one proves nothing: both may hold more than they need
    own_bytes = candidate.device_bytes.get("")
    device = {} if own_bytes is None else {"": own_bytes, OTHER: own_bytes}
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
    """The valid blocks of one case, one for each fresh candidate process. repeated: the number of
    blocks that were measured again. earlier: rounds of other evaluations under the same key, by
    baseline and process, as corrected by `confirmed_pairs`."""

    blocks: list[Block] = field(default_factory=list)
    repeated: int = 0
    earlier: Mapping[str, Sequence[Sequence[tuple[float, float]]]] = field(default_factory=dict)

    def pairs(self, baseline: str) -> list[list[tuple[float, float]]]:
        """Return the pairs by process. Later processes of a confirmation are timed only against the
        strongest baseline."""
        return [b.pairs[baseline] for b in self.blocks if baseline in b.pairs]

    def all(self, figure: str) -> list[float]:
        """Return one figure of every burst, over all processes."""
        return [value for block in self.blocks for value in getattr(block, figure)]

    def median_of(self, figure: str, side: str) -> float | None:
        """Return the median over the processes of a figure that each has once per side, such as
        warm_us or end_to_end_us."""
        values = [
            getattr(block, figure)[side] for block in self.blocks if side in getattr(block, figure)
        ]
        return statistics.median(values) if values else None

    def most(self, figure: str, side: str) -> int | None:
        """Return the largest host_bytes or device_bytes of a side over the processes; None where
        none has it."""
        values = [getattr(block, figure).get(side) for block in self.blocks]
        return max((each for each in values if each is not None), default=None)

    def early_bytes(self, baseline: str, kept_bytes: int) -> float:
        """Return how much of its own device memory, beside outputs, a candidate may have written
        for each call before the judge's word: what it holds beyond the baseline, the largest over
        its processes. kept_bytes: of the parameters, of which it may keep a copy."""
        early = 0.0
        for block in self.blocks:
            held = block.device_bytes
            if "" in held and baseline in held:
                own = held[""] + block.unowned_bytes
                more = own - held[baseline] - kept_bytes - POOLS_BYTES
                early = max(early, more / block.calls)
        return early

    def cleared_bytes(self, needed_bytes: int) -> float:
        """Return how much of its own device memory a candidate may have cleared for each call where
        nobody watches: all that it holds beyond needed_bytes and the process itself, spread over
        the rounds that a median needs (see ready_bytes) of a half, or of those between two
        verifications, since it may do so again then. The largest over its processes."""
        cleared = 0.0
        for block in self.blocks:
            halves = block.changed_at, len(block.inner_ns) - block.changed_at
            rounds = [n for n in (*halves, block.unverified) if n]
            if "" in block.device_bytes and rounds:
                more = block.device_bytes[""] + block.unowned_bytes - needed_bytes - PROCESS_BYTES
                cleared = max(cleared, more / (block.calls * max(1, min(rounds) * 5 / 8)))
        return cleared

    @property
    def waits(self) -> bool:
        """Whether calls of the candidate wait for a device themselves."""
        waits = self.all("waits")
        return sum(waits) > len(waits) / 2

    @property
    def may_be_ready(self) -> bool:
        """Whether outputs may have been there before in any round."""
        return any(self.all("ready_bytes")) or any(self.all("unknown_bytes"))

    @property
    def ready_bytes(self) -> float:
        """Of a call's outputs, what may have been there before in three of eight rounds: fewer
        hardly change a median, and the first rounds of each half find new memory honestly."""
        figures = sorted(self.all("ready_bytes"))
        return figures[len(figures) * 5 // 8] if figures else 0.0

    @cached_property
    def seen_ns(self) -> float:
        """The least time of a burst's calls by the judge's clock, with 97.5 % confidence, less the
        baseline's gap. Messages and other processes can only add time, so lower quartiles are
        compared, and a busy machine causes no accusation. Because two processes transfer the same
        bytes at different speeds, a part of the gap is subtracted as doubtful."""
        outer, gaps = self.all("outer_ns"), self.all("gap_ns")
        if not outer:
            return 0.0
        return max(
            0.0, statistics.least_difference(outer, gaps) - GAP_NOISE * statistics.median(gaps)
        )

    @property
    def nothing_us(self) -> tuple[float, float] | None:
        """The time of an empty call, and the part of it inside the worker, both of the baselines'
        processes."""
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
    def clock_open_us(self) -> float:
        """By how much a call may be longer than its figure without the judge's clock showing it. On
        a CPU that clock gives the figure, and a candidate could save the evaluator's part of a call
        inside its process. On a device where the candidate's clock gives the figure, the judge only
        knows the time of a whole burst with its inputs and outputs moved."""
        if self.nothing_us is not None:
            return self.nothing_us[1]
        gaps = [
            (outer - inner) / block.calls / 1e3
            for block in self.blocks
            for outer, inner in zip(block.outer_ns, block.inner_ns, strict=True)
        ]
        return max(0.0, statistics.quantile(gaps, 0.25)) if gaps else 0.0

    @property
    def unseen_us(self) -> float:
        """See Block."""
        return statistics.median([block.unseen_us for block in self.blocks])

    def hidden_us(self, baseline: str, margin: float, us_per_byte: float) -> float:
        """Return by how much turns took longer than the figure shows, see Block.hidden_us, as a
        median over the processes: by the median of turns, and at least what cold caches explain; by
        their mean if it exceeds the margin. A busy machine raises it in some processes; a candidate
        has to do its work in each."""
        blocks = [block for block in self.blocks if baseline in block.pairs]
        candidate_us = [us for process in self.pairs(baseline) for _, us in process]
        if not blocks or not candidate_us:
            return self.cold_us
        counted_us = (margin - 1) * statistics.median(candidate_us)
        # of each process the larger: each may hide its work in another way
        each_us = [
            max(usual, average if average > counted_us else 0.0)
            for usual, average in (block.hidden_us(baseline, us_per_byte) for block in blocks)
        ]
        return max(self.cold_us, statistics.median(each_us))

    @property
    def cold_us(self) -> float:
        """The tolerated excess of a candidate's unmeasured calls over the baseline's, per call of a
        turn: cold caches cost some processes more than others."""
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
        """The time of a burst's calls by the candidate's own clock."""
        return statistics.median(self.all("inner_ns"))

    def clock_disagrees(self, copying_us: float = 0.0) -> bool:
        """Return whether the judge's clock saw so much more time that the candidate is accused. A
        smaller excess only raises the figure. copying_us: the time to read a call's outputs from
        memory, which is tolerated, since stores that bypass the caches make their transfer that
        much slower than the baseline's."""
        call_us = statistics.median(
            [us for pairs in self.blocks[0].pairs.values() for _, us in pairs]
        )
        copying_ns = copying_us * self.claimed_ns / max(call_us, 1e-3)
        return (
            self.seen_ns - self.claimed_ns > HIDDEN_SHARE * self.claimed_ns + HIDDEN_NS + copying_ns
        )

    @property
    def clock_factor(self) -> float:
        """The factor from the time that the candidate's own clock claims to the least time that the
        judge's clock saw; 1 if that is not more."""
        factor = max(1.0, self.seen_ns / max(self.claimed_ns, 1.0))
        return factor if self.nothing_us is None or factor > WAITING else 1.0

    def alone_factor(self, baseline: str) -> float:
        """Return the factor from a call's share of a burst to its time alone, without the
        difference that the baseline shows as well (the fixed cost of an event and a launch). 1
        where calls are timed one by one anyway, or where the difference may be noise with 97.5 %
        confidence.

        Measured by the clock that gives the figure: if that is the candidate's own, the judge's
        clock includes moving inputs and outputs, which takes many times as long as a short call."""
        blocks = [block for block in self.blocks if baseline in block.alone_us]
        calls = [
            pair
            for block in blocks
            for pair in zip(block.alone_us[""], block.alone_us[baseline], strict=True)
        ]
        # the judge's share is in both, and a call alone bears it all: left open, see alone_open_us
        if not calls or self.waits:
            return 1.0
        together = [c - b for process in self.pairs(baseline) for b, c in process]
        alone = [c - b for c, b in calls]
        claimed = statistics.median([c for process in self.pairs(baseline) for _, c in process])
        if 1 + statistics.least_difference(alone, together, 0.5) / claimed <= ALONE_NOISE:
            return 1.0
        return 1 + (statistics.median(alone) - statistics.median(together)) / claimed

    def alone_open_us(self, baseline: str) -> float:
        """Return the most, with 97.5 % confidence, by which a call alone may be longer than its
        share of a burst beyond the baseline's difference: the time that merging calls may have
        saved, as far as the judge's clock can tell. 0 where calls are timed one by one, or the
        candidate's clock gives the figure."""
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
        """Return the factor for the excess time of a turn's unmeasured calls, beyond the baseline's
        and beyond what cold caches explain: work done there for the measured calls belongs to
        these. 1 on a device.

        It is the median over processes of what each shows by lower quartiles, with 97.5 %
        confidence. Other processes on the core can lengthen half of a process's turns, but cannot
        shorten a quarter. All rounds together would overstate the confidence, since the rounds of
        one process are not independent."""
        unmeasured = [
            block.unmeasured_us(baseline) for block in self.blocks if baseline in block.pairs
        ]
        call_us = statistics.median([c for process in self.pairs(baseline) for _, c in process])
        return 1 + max(0.0, statistics.median(unmeasured) - self.cold_us) / call_us

    def confirmed_pairs(self, baseline: str) -> list[list[tuple[float, float]]]:
        """Return the pairs with the candidate's times raised to the least time that the judge's
        clock saw, to the time of calls alone, and by work done ahead of the measured calls."""
        raised = max(self.clock_factor, self.alone_factor(baseline)) * self.unmeasured_factor(
            baseline
        )
        new = [[(b, c * raised) for b, c in process] for process in self.pairs(baseline)]
        return [*map(list, self.earlier.get(baseline, ())), *new]
