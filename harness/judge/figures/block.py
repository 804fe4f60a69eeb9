"""The measurements of one candidate process on one case."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean

from ...targets.state import DeviceState, Disturbance, disturbances
from . import statistics

OTHER = "other candidate"
# Rounds from the middle of each half on that tell what a settled heap does. Of 15 and 32 rounds,
# honest processes found new memory in the first eight, and in few later ones; of four, in all.
LEAST_LATER = 8
# What a call may take longer to be queued on a device than the baseline's: callers get launches
# that are asynchronous, and a launch of Triton takes up to 30 us where an operator takes 5.
FREE_HOST_US = 200.0
BUSY_SHARE = 0.1  # tolerated share of baseline bursts before which the device was not idle


@dataclass
class Block:
    """One candidate process on one case: raw figures of its rounds, and the device's state before
    and after them. Figures by side use "" for the candidate and the name for a baseline.

    pairs: by baseline, (baseline, candidate) microseconds per call by the inner clock. inner_ns,
    outer_ns: the candidate's bursts by both clocks. process_clock_ns: the times that its process
    reports, where neither clock is its own. gap_ns: the difference of the clocks for the baseline.
    calls, warm: the measured calls of a turn, and the unmeasured ones before them. unmeasured_ns:
    by side, the time of unmeasured calls beyond that of as many measured ones. late_ns: by side,
    the processor time after the last call of a turn that is not in the figure. alone_us: by side,
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
    late_ns: dict[str, list[float]] = field(default_factory=dict)
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
    state_doubt: str = ""
    """Why what the calls have left is not known for certain, "" where it is, see TimedState."""
    unseen_us: float = 0.0
    """What a call may have saved by work that nobody sees: before the rounds, see timing.ahead, and
    on a device in held slices and by taken memory, see Witness."""
    alone_saved_us: float = 0.0
    """What a candidate could save of a call alone, see Sides.alone_saved_ns."""
    alone_unseen_us: float = 0.0
    """What a call alone may have saved in held slices and by taken memory."""
    host_us: dict[str, float] = field(default_factory=dict)
    """By side, the host's time to queue a call on a device, see Sides.host_us."""
    alone_host_us: dict[str, float] = field(default_factory=dict)
    """The same of a call alone."""
    unverified_rounds: int = 0
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
        others = self._beside_ns(baseline)
        if not others:
            return 0.0
        least_ns = statistics.least_difference(self._beside_ns(""), others)
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

    def host_open_us(self, baseline: str) -> float:
        """Return what a call takes on the host beyond the baseline's, less what is free. What
        follows from numbers among the inputs may be computed there."""
        return _beyond_free_us(self.host_us, baseline)

    def alone_host_open_us(self, baseline: str) -> float:
        """Return the same of a call alone, beyond what is open for each call anyway."""
        alone_us = _beyond_free_us(self.alone_host_us, baseline)
        return max(0.0, alone_us - self.host_open_us(baseline))

    def _whole_us(self, name: str, turns_us: Sequence[float]) -> list[float]:
        """Return the time of each turn of a side with its unmeasured calls, per call."""
        extra_ns, calls = self._beside_ns(name), self.warm + self.calls
        if len(extra_ns) != len(turns_us):
            return list(turns_us)
        return [us + ns / 1e3 / calls for us, ns in zip(turns_us, extra_ns, strict=True)]

    def _beside_ns(self, side: str) -> list[float]:
        """Return a side's time of each turn besides its measured calls, beyond what such calls
        take."""
        extra_ns = self.unmeasured_ns.get(side, [])
        late_ns = self.late_ns.get(side) or [0.0] * len(extra_ns)
        return [extra + late for extra, late in zip(extra_ns, late_ns, strict=True)]

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


def _beyond_free_us(host_us: Mapping[str, float], baseline: str) -> float:
    free_us = FREE_HOST_US + host_us.get(baseline, 0.0)
    return max(0.0, host_us.get("", 0.0) - free_us)


def against(candidate: Block, opponent: Block) -> Block:
    """Return a candidate's block with another candidate, timed in the same rounds, as its baseline
    under the name OTHER."""
    candidate_us, opponent_us = (
        [us for _, us in next(iter(block.pairs.values()))] for block in (candidate, opponent)
    )
    # what a candidate holds beyond another one proves nothing: both may hold more than they need
    own_bytes = candidate.device_bytes.get("")
    device = {} if own_bytes is None else {"": own_bytes, OTHER: own_bytes}

    def host(own_us: dict[str, float], others_us: dict[str, float]) -> dict[str, float]:
        return {"": own_us.get("", 0.0), OTHER: others_us.get("", 0.0)}

    def both(own: dict[str, list[float]], others: dict[str, list[float]]) -> dict[str, list[float]]:
        return {"": own[""], OTHER: others[""]} if own else {}

    return replace(
        candidate,
        pairs={OTHER: list(zip(opponent_us, candidate_us, strict=True))},
        unmeasured_ns=both(candidate.unmeasured_ns, opponent.unmeasured_ns),
        late_ns=both(candidate.late_ns, opponent.late_ns),
        alone_us=both(candidate.alone_us, opponent.alone_us),
        device_bytes=device,
        host_us=host(candidate.host_us, opponent.host_us),
        alone_host_us=host(candidate.alone_host_us, opponent.alone_host_us),
    )
