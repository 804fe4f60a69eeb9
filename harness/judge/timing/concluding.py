"""The conclusion from the rounds of a case: an interval, a verdict, and doubts about them."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

from ...types import Case, CaseResult, Ceilings, Signal
from ..device import roofline
from ..failures import Failure
from ..figures import statistics
from ..figures.block import FREE_HOST_US
from ..figures.case_times import CaseTimes
from ..stage_context import StageContext
from . import blocks, left_open, memory_use
from .left_open import Times

UNCONFIRMED = (
    "the judge's clock does not confirm the candidate's own, which shows a shorter time: the "
    "figure is the judge's"
)
WAITS = (
    "a call takes longer by the judge's clock than its process ran: it waits for others, which the "
    "figure includes"
)
WAITS_FOR_DEVICE = (
    "a call waits for the device before it has launched all of its work (item, nonzero, a copy to "
    "the host, or a synchronization; or its launches take very long), so the host's launches are "
    "in its figure, and a part of the judge's work. Decide on the device what depends on values"
)
AHEAD = (
    "unmeasured calls take longer than measured ones, by more than the baseline's do: the figure "
    "includes this ({alone:.4g} us without it)"
)
MERGED = (
    "a call takes longer alone than as one of several, by more than the baseline's does: the "
    "figure is that of a single call"
)
DRIFT = 1.1  # tolerated drift of a baseline since the task was opened; up to 1.06 was seen (H100)


@dataclass(frozen=True)
class Conclusion:
    """The conclusion for a timed case."""

    result: CaseResult
    signals: tuple[Signal, ...] = ()
    failure: Failure | None = None
    """Set if the figures show a cheat (the result is then unchanged), or if the candidate holds
    more memory than allowed."""


def conclude(
    context: StageContext, case: Case, result: CaseResult, times: Times, rng: random.Random
) -> Conclusion:
    """Conclude a timed case against its strongest baseline. case: with its screening. result: of
    the check of its outputs."""
    case_times, family = times[case.name], context.task.family
    by_judge, best = case_times.nothing_us is not None, case_times.strongest
    if not by_judge and (failure := _clock_failure(context, case, case_times)):
        return Conclusion(result, failure=failure)
    comparison = compare(context, times, case.name, best, rng)
    latency_us = statistics.median(
        [us for process in case_times.confirmed_pairs(best) for _, us in process]
    )
    signals = blocks.doubts(case.name, case_times)
    roofline_us, plausible_us = _bounds_us(context, case, case_times, latency_us)
    if not context.ablating and (failure := _speed_failure(context, case, case_times, latency_us)):
        return Conclusion(result, tuple(signals), failure)
    open_us = left_open.left_open_us(context, times, case.name, best)
    host_us = case_times.host_open_us(best) + case_times.alone_host_open_us(best)
    # the host's time is not the device's, and anybody may sleep there
    if _is_implausible(latency_us + max(0.0, open_us - host_us), plausible_us):
        text = (
            f"case {case.name}: {latency_us:.1f} us is far below the {plausible_us:.1f} us that "
            "its bytes, or its operations in the narrowest format, take at the measured rates"
        )
        signals.append(Signal("suspect.implausible_speed", text))
    comparison, why = _vouch(context, case, comparison, times, latency_us)
    signals += why
    if case_times.waits:
        signals.append(Signal("waits_for_device", f"case {case.name}: {WAITS_FOR_DEVICE}"))
        if comparison.verdict == "slower":
            comparison = replace(comparison, verdict="inconclusive")
    if case_times.state_doubt:
        text = f"case {case.name}: {case_times.state_doubt}"
        signals.append(Signal("clock_open", text))
    else:
        turns_us = case_times.hidden_us(best, family.MARGIN, 0.0)
        spared_us = left_open.hidden_us(context, case_times, case.name, best) - turns_us
        unseen_us = case_times.unseen_us + case_times.alone_unseen_us
        signals += _doubts(case, comparison, open_us, spared_us, unseen_us, host_us, latency_us)
    concluded = replace(
        result,
        speedup=comparison.speedup,
        interval=comparison.interval,
        verdict=comparison.verdict,
        baseline=best,
        baselines=case_times.medians,
        latency_us=latency_us,
        clock="judge" if by_judge else "candidate",
        open_us=open_us,
        warm_us=case_times.median_of("warm_us", ""),
        baseline_warm_us=case_times.median_of("warm_us", best),
        end_to_end_us=case_times.median_of("end_to_end_us", ""),
        baseline_end_to_end_us=case_times.median_of("end_to_end_us", best),
        dispatch_us=case_times.median_of("dispatch_us", ""),
        launch_us=statistics.median(case_times.all("launch_us")),
        roofline_fraction=min(roofline_us, latency_us) / latency_us if roofline_us else None,
        ceiling=_ceiling(context, case, case_times) if roofline_us else "",
        pairs=comparison.pairs,
        detail=_reason_for_raise(context, case_times, best),
        nothing_us=_nothing_us(context, case_times),
        page_faults=statistics.median(case_times.all("faults")),
        baseline_page_faults=statistics.median(case_times.all("baseline_faults")),
        host_peak_bytes=case_times.most("host_bytes", ""),
        baseline_host_peak_bytes=case_times.most("host_bytes", best),
        device_peak_bytes=case_times.most("device_bytes", ""),
        baseline_device_peak_bytes=case_times.most("device_bytes", best),
        threads=1,
        allocation=context.machine.environment_of(family).allocation,
    )
    signals += memory_use.beyond_baseline(concluded)
    over = None if context.ablating else memory_use.over_limit(concluded, context.request.policy)
    return Conclusion(concluded, tuple(signals), over)


def compare(
    context: StageContext, times: Times, case: str, baseline: str, rng: random.Random
) -> statistics.Comparison:
    """Compare with a baseline, using the known properties of the device and the number of baseline
    processes."""
    family = context.task.family
    return statistics.compare(
        times[case].confirmed_pairs(baseline),
        family.MARGIN,
        rng,
        baselines=0 if context.confirming else baseline_processes(context, times),
        process_us=family.PROCESS_US,
        open_us=left_open.left_open_us(context, times, case, baseline),
    )


def baseline_processes(context: StageContext, times: Times) -> int:
    """Return the number of baseline processes that the candidate was timed against."""
    earlier = context.request.earlier
    count = max(len(each.blocks) for each in times.values()) if context.request.renews else 1
    return count + (earlier.baselines if earlier.rounds else 0)


def is_contended(context: StageContext, times: Times, case: str) -> bool:
    """Return whether another process used the device in rounds of this case."""
    return case in context.request.earlier.contended or any(b.contended for b in times[case].blocks)


def drift(context: StageContext, case: Case, times: CaseTimes) -> float:
    """Return the baseline's time as a factor on its time at opening, if the change is unusual on a
    device whose bursts the judge's clock measures; 1 otherwise. A candidate's process may leave
    work on the device that delays others although the process is stopped, such as copies from the
    host, and slows down empty bursts as well."""
    name = times.strongest
    by_judge = times.nothing_us is not None and not context.task.family.SYNCHRONOUS
    if not by_judge or name not in case.baselines_us:
        return 1.0
    baseline_us = statistics.median([us for process in times.pairs(name) for us, _ in process])
    factor = baseline_us / case.baselines_us[name]
    return factor if max(factor, 1 / factor) > DRIFT else 1.0


def _clock_failure(context: StageContext, case: Case, times: CaseTimes) -> Failure | None:
    """Return a failure if the candidate's own clock gives the figure and the judge's disagrees."""
    copying_us = roofline.copying_us(case, context.machine.ceilings_of(context.task.family))
    if not times.clock_disagrees(copying_us):
        return None
    text = (
        f"case {case.name}: a burst took at least {times.seen_ns / 1e3:.0f} us by the judge's "
        f"clock and {times.claimed_ns / 1e3:.0f} us by the candidate's own, and the baseline "
        "shows no such gap: work is done outside the timed calls"
    )
    return Failure("reward_hack", text, (Signal("cheat.clock", text),))


def _bounds_us(
    context: StageContext, case: Case, times: CaseTimes, latency_us: float
) -> tuple[float, float]:
    """Return the roofline of a case, by the same ceilings as the diagnosis, and the shortest
    plausible time; 0 for none. A baseline's time is always plausible. Ceilings that a candidate
    exceeds are measured again before it is accused, since other programs may have used the memory
    when they were measured."""
    if not case.roofline_time_us:
        return 0.0, 0.0
    family, working_set = context.task.family, context.task.pools[case.name].working_set
    reached = times.medians.values()

    def bounds(ceilings: Ceilings) -> tuple[float, float]:
        least_us = roofline.roofline_time_us(case, ceilings, working_set)
        plausible_us = roofline.plausible_us(case, ceilings, working_set, family.NARROW_FACTOR)
        return min([least_us, *reached]), min([plausible_us, *reached])

    limits = bounds(context.machine.ceilings_of(family))
    if _is_implausible(latency_us, limits[1]) or latency_us < _floor_us(context, case, times):
        with context.lock.hold(context.cancel):
            limits = bounds(context.machine.ceilings_again(family))
    return limits


def _ceiling(context: StageContext, case: Case, times: CaseTimes) -> str:
    """Return the name of what the roofline in `_bounds_us` comes from."""
    ceilings = context.machine.ceilings_of(context.task.family)
    working_set = context.task.pools[case.name].working_set
    if min(times.medians.values()) < roofline.roofline_time_us(case, ceilings, working_set):
        return "the baseline's time"
    return roofline.limit(case, ceilings, working_set)


def _floor_us(context: StageContext, case: Case, times: CaseTimes) -> float:
    """Return the microseconds below which the outputs cannot have been written, without what may
    have been there before; 0 if there is nothing to write."""
    ceilings = context.machine.ceilings_of(context.task.family)
    nbytes = max(0, round(case.bytes_written - times.ready_bytes))
    return roofline.impossible_us(nbytes, ceilings) if nbytes else 0.0


def _speed_failure(
    context: StageContext, case: Case, times: CaseTimes, latency_us: float
) -> Failure | None:
    """Return a failure if the outputs cannot have been written in the measured time."""
    floor_us = _floor_us(context, case, times)
    if latency_us >= floor_us:
        return None
    text = (
        f"case {case.name}: {latency_us:.2f} us is below {floor_us:.2f} us, the shortest time in "
        "which this machine can write the outputs"
    )
    return Failure("reward_hack", text, (Signal("cheat.impossible_speed", text),))


def _is_implausible(latency_us: float, plausible_us: float) -> bool:
    """Return whether a person should look at a time. A candidate whose figure is called implausible
    gets its open share added, since a figure that the judge's clock does not vouch for is not
    called faster anyway, and honest work on a second stream may lie in it."""
    return 1.0 < latency_us < 0.6 * plausible_us


def _vouch(
    context: StageContext,
    case: Case,
    comparison: statistics.Comparison,
    times: Times,
    latency_us: float,
) -> tuple[statistics.Comparison, list[Signal]]:
    """Return the comparison reduced to what the judge can certify, and signals with the
    reasons."""
    signals = []
    pool = context.task.pools[case.name]
    if numbers := pool.predictable or pool.sampled_alike or pool.hardly_read:
        if comparison.verdict == "faster":
            comparison = replace(comparison, verdict="inconclusive")
        reason = (
            "is the same in every draw within its tolerance: a number known beforehand would pass"
            if pool.predictable
            else "may be right within its tolerance if half of the inputs are read: less work may "
            "pass"
            if pool.sampled_alike
            else "hardly shows one of the inputs, or of the products, within its tolerance: less "
            "work may pass"
        )
        text = f"case {case.name}: output {numbers[0]} {reason}, so no speed-up can be certified"
        signals.append(Signal("output_predictable", text, {"output": float(numbers[0])}))
    factor = drift(context, case, times[case.name])
    screened_us = case.baselines_us[times[case.name].strongest]
    if factor != 1.0:
        text = (
            f"case {case.name}: the baseline took {factor * screened_us:.1f} us, and "
            f"{screened_us:.1f} us when the task was opened: something else affected it, so no "
            "candidate is called faster"
        )
        signals.append(Signal("foreign_process", text, {"factor": factor}))
    # the candidate may have slowed the baseline down; `doubts` reports a contended device
    if factor != 1.0 or is_contended(context, times, case.name):
        speedup = min(comparison.speedup, screened_us / latency_us)
        comparison = replace(
            comparison,
            verdict="inconclusive" if comparison.verdict == "faster" else comparison.verdict,
            speedup=speedup,
            interval=(min(comparison.interval[0], speedup), comparison.interval[1]),
        )
    return comparison, signals


def _doubts(
    case: Case,
    comparison: statistics.Comparison,
    open_us: float,
    spared_us: float,
    unseen_us: float,
    host_us: float,
    latency_us: float,
) -> list[Signal]:
    if not comparison.doubted:
        return []
    text = (
        f"case {case.name}: the figure is {comparison.speedup:.2f}x, but the judge's clock "
        f"leaves open whether a call takes up to {open_us:.1f} us more than {latency_us:.1f} us, "
        "so it is not called faster"
    )
    if spared_us > 0.05:
        text += (
            f". {spared_us:.1f} us of it: outputs may have been prepared beforehand, or other "
            "memory that it uses"
        )
    if unseen_us > 0.05:
        unseen_us = min(unseen_us, open_us)
        text += f". {unseen_us:.1f} us of it: work before its measured calls, or beside a device's"
    if host_us > 0.05:
        text += (
            f". {min(host_us, open_us):.1f} us of it: its process takes so much longer to queue a "
            f"call than the baseline's, beyond {FREE_HOST_US:.0f} us that are free"
        )
    return [Signal("clock_open", text, {"open_us": open_us, "latency_us": latency_us})]


def _nothing_us(context: StageContext, times: CaseTimes) -> float | None:
    """Return the evaluator's own part of a call, which figures include; None on a device, where it
    is subtracted."""
    if times.nothing_us is None or not context.task.family.SYNCHRONOUS:
        return None
    return times.nothing_us[0]


def _reason_for_raise(context: StageContext, times: CaseTimes, baseline: str) -> str:
    """Return why the figure was raised, "" if only by noise: raises below the margin are not
    attributed to the candidate."""
    family = context.task.family
    if times.alone_factor(baseline) > times.clock_factor:
        return MERGED
    if times.unmeasured_factor(baseline) > family.MARGIN:
        alone = statistics.median([us for process in times.pairs(baseline) for _, us in process])
        return AHEAD.format(alone=alone)
    reason = WAITS if family.SYNCHRONOUS else UNCONFIRMED
    return reason if times.clock_factor > family.MARGIN else ""
