"""The measurements of one case: the rounds of each process, and what follows from them together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from . import statistics
from .block import Block

# Tolerated excess of a candidate's unmeasured calls, as a share of the time that the baseline's
# take beyond measured ones: honest candidates that use threads took 0.5 to 0.65 of it in the
# median, others up to 0.4.
COLD_SHARE = 0.5
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
# What a process on a CPU holds besides what it needs: at most 21 MiB were seen of honest kernels.
HOST_BYTES = 32 << 20
# on a CPU: a smaller excess of a call over its bill is time that the hypervisor took
WAITING = 1.1


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
        own_bytes = [
            (block, block.device_bytes[""] + block.unowned_bytes)
            for block in self.blocks
            if "" in block.device_bytes
        ]
        needed_bytes += PROCESS_BYTES
        found = [_spread(b, own - needed_bytes, b.unverified_rounds) for b, own in own_bytes]
        return max([0.0, *found])

    def prepared_bytes(self, needed_bytes: int) -> float:
        """Return the same of memory on a CPU, which may have been prepared before the rounds of a
        half."""
        needed_bytes += HOST_BYTES
        found = [_spread(b, b.host_bytes.get("", 0) - needed_bytes) for b in self.blocks]
        return max([0.0, *found])

    @property
    def medians(self) -> dict[str, float]:
        """The median microseconds of each baseline."""
        names = list(self.blocks[0].pairs)
        rounds = {name: [*self.earlier.get(name, ()), *self.pairs(name)] for name in names}
        return {
            name: statistics.median([pair[0] for process in processes for pair in process])
            for name, processes in rounds.items()
        }

    @property
    def strongest(self) -> str:
        """The baseline with the lowest median."""
        medians = self.medians
        return min(medians, key=lambda name: medians[name])

    @property
    def state_doubt(self) -> str:
        """Why what timed calls left is not known for certain in some process, "" where it is in
        all."""
        return next((block.state_doubt for block in self.blocks if block.state_doubt), "")

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

    @property
    def alone_unseen_us(self) -> float:
        """What a call alone may have saved where nobody sees it, beyond what is open for each call
        anyway. It is not billed, since a device may be held for a slice without any work."""
        return statistics.median(
            [max(0.0, block.alone_unseen_us - block.unseen_us) for block in self.blocks]
        )

    def host_open_us(self, baseline: str) -> float:
        """See Block."""
        return self._median_of_blocks(baseline, lambda block: block.host_open_us(baseline))

    def alone_host_open_us(self, baseline: str) -> float:
        """See Block."""
        return self._median_of_blocks(baseline, lambda block: block.alone_host_open_us(baseline))

    def _median_of_blocks(self, baseline: str, figure: Callable[[Block], float]) -> float:
        """Return the median over the processes that were timed against a baseline."""
        values = [figure(block) for block in self.blocks if baseline in block.pairs]
        return statistics.median(values) if values else 0.0

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
        saved, as far as the judge's clock can tell, and what the candidate could save of a call
        alone, or may have where nobody sees it. 0 where calls are timed one by one, or the
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
        saved = statistics.median([block.alone_saved_us for block in blocks])
        saved += self.alone_unseen_us + self.alone_host_open_us(baseline)
        return max(0.0, saved - statistics.least_difference(together, alone, 0.5))

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


def _spread(block: Block, nbytes: int, unverified_rounds: int = 0) -> float:
    """Return bytes by call of the shorter half, or of the rounds that are verified together."""
    halves = block.changed_at, len(block.inner_ns) - block.changed_at
    rounds = [n for n in (*halves, unverified_rounds) if n]
    return nbytes / (block.calls * max(1, min(rounds) * 5 / 8)) if rounds else 0.0
