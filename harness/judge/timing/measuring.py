"""The stage `time`: fresh candidate processes against the baselines, then an interval and a verdict
for each case."""

from __future__ import annotations

import math
import random
import time
from dataclasses import replace
from typing import Any

from ...settings import timing_effort
from ...types import Case, Samples, Signal, fitness, to_json
from ..device import roofline
from ..failures import Failure
from ..figures import case_times, statistics
from ..run import Run, keep_compiled, prestart_timed, start_worker
from ..tasks import opening
from . import blocks, extra_figures, paired

# measured again because something else used the device: in one confirmation, and one block
REPEATS, REPEATS_OF_ONE = 4, 2
SEARCH_REPEATS = 1  # in a search, whose winner is measured again anyway
MOST_PROCESSES = 36  # of a confirmation, for cases that the first processes leave inconclusive
PAUSE_S = 0.25  # before one of them: what disturbed it may pass

UNCONFIRMED = (
    "the judge's clock does not reproduce the candidate's own, which said faster: the figure is "
    "the judge's"
)
WAITS = (
    "a call takes longer by the judge's clock than its process ran: it waits for others, and the "
    "figure counts that"
)
AHEAD = (
    "calls that are not measured take longer than those that are, by more than the baseline's do: "
    "the figure counts that ({alone:.4g} us without it)"
)
MERGED = (
    "a call takes longer alone than as one of several, by more than the baseline's does: the "
    "figure is that of a call alone"
)


def time_candidate(run: Run) -> dict[str, Any]:
    """Fresh candidate processes, one after the other; each runs every case against its baselines.
    What the device's state makes doubtful is measured again by one more fresh process, within
    bounds."""
    keep_compiled(run)
    if run.loaded is not None:
        run.machine.reaper.add(run.loaded)
        run.loaded = None
    rng = paired.fresh_rng()
    earlier, least = run.request.earlier, round(paired.PROCESSES * run.request.effort)
    run.times = {
        c.name: case_times.CaseTimes(earlier=earlier.rounds.get(c.name, {})) for c in run.cases
    }
    repeats = REPEATS if run.confirming else SEARCH_REPEATS
    process, deadline, cases = 0, math.inf, run.cases
    while cases:
        if run.request.renews:
            # neither side is always the first on the device
            run.task.restart(at_once=rng.random() < 0.5)
        # nothing of an earlier one is there, not even in flight, when this one begins
        run.machine.reaper.wait()
        prestart_timed(run)
        blocks.draw(run, with_baselines(run, cases[0]))
        worker = start_worker(run)
        run.machine.reaper.wait()  # compilers of this one among them
        try:
            for number, case in enumerate(cases):
                fraction = 0.4 + 0.5 * min(1.0, (process + number / len(cases)) / paired.PROCESSES)
                run.tell(
                    "time",
                    f"process {process + 1} of at least {paired.PROCESSES}, case {case.name}",
                    fraction,
                )
                screened, times = with_baselines(run, case), run.times[case.name]
                baselines = (
                    [_strongest(times)]
                    if process >= paired.PROCESSES
                    else paired.contenders(screened, every=run.confirming)
                )
                block = blocks.time_case(run, screened, worker, baselines, rng)
                tries = REPEATS_OF_ONE
                while block.disturbances and repeats and tries:
                    repeats, tries, times.repeated = repeats - 1, tries - 1, times.repeated + 1
                    run.tell(
                        "time", f"case {case.name} again: {block.disturbances[0].text}", fraction
                    )
                    worker.close()
                    time.sleep(PAUSE_S)
                    worker = start_worker(run)
                    block = blocks.time_case(run, screened, worker, baselines, rng)
                times.blocks.append(block)
                if run.confirming and run.task.crowded:
                    run.task.release(case.name)
        finally:
            worker.close()
        process += 1
        if process < paired.PROCESSES and (text := _behind(run, process, rng)):
            run.signals.append(Signal("timed_briefly", text))
            break
        if process == paired.PROCESSES:
            deadline = time.monotonic() + timing_effort() * run.task.family.PATIENCE_S
        if process >= paired.PROCESSES:
            more = run.confirming and process < MOST_PROCESSES and time.monotonic() < deadline
            cases = (
                _undecided(run, rng)
                if more
                else []
                if run.confirming or process >= least
                else run.cases
            )
    for case in run.cases:
        conclude_case(run, with_baselines(run, case), rng)
        if run.ablating:
            run.results[case.name] = replace(run.results[case.name], verdict=None)
    if run.request.purpose == "confirm":
        extra_figures.measure(run, rng)
    return {
        "processes": {n: len(t.blocks) for n, t in run.times.items()},
        "clocks_us": {n: (t.claimed_ns / 1e3, t.seen_ns / 1e3) for n, t in run.times.items()},
        "said_us": {
            n: statistics.median(said) / 1e3
            for n, t in run.times.items()
            if (said := t.all("said_ns"))
        },
        "nothing_us": {n: t.nothing_us for n, t in run.times.items()},
        "ahead": {n: t.unmeasured_factor(_strongest(t)) for n, t in run.times.items()},
        "alone": {n: t.alone_factor(_strongest(t)) for n, t in run.times.items()},
        "blocks": {n: blocks.report(t) for n, t in run.times.items()},
        **({} if run.confirming else {"samples": to_json(_samples(run))}),
    }


def _samples(run: Run) -> Samples:
    """What a later evaluation of the same key may join: the rounds of this one and those that it
    joined."""
    rounds = {
        name: {
            b: tuple(
                tuple((_rounded(x), _rounded(y)) for x, y in process)
                for process in times.confirmed(b)
            )
            for b in times.blocks[0].pairs
        }
        for name, times in run.times.items()
    }
    open_us = {
        name: {b: _open_us(run, name, b) for b in by_baseline}
        for name, by_baseline in rounds.items()
    }
    return Samples(
        rounds, _baselines(run), open_us, tuple(n for n in rounds if _is_contended(run, n))
    )


def _open_us(run: Run, case: str, baseline: str) -> float:
    """By how much a call may be longer than its figure; of what is joined the most, since rounds
    keep the doubt under which they were measured."""
    times = run.times[case]
    earlier = run.request.earlier.open_us.get(case, {}).get(baseline, 0.0)
    return max(earlier, times.open_us + times.alone_open_us(baseline))


def _is_contended(run: Run, case: str) -> bool:
    """Whether somebody else had work for the device in rounds of this case."""
    blocks_ = run.times[case].blocks
    return case in run.request.earlier.contended or any(b.contended for b in blocks_)


def _baselines(run: Run) -> int:
    """How many processes of the baselines stood beside the candidate's."""
    earlier = run.request.earlier
    own = max(len(times.blocks) for times in run.times.values()) if run.request.renews else 1
    return own + (earlier.baselines if earlier.rounds else 0)


def _rounded(us: float) -> float:
    """Five digits: more than a clock is good for."""
    return float(f"{us:.5g}")


def with_baselines(run: Run, case: Case) -> Case:
    """A case with its screening: from the task, or measured now (held-out cases, a task opened for
    a check)."""
    if case.baselines_us:
        return case
    if case.name not in run.screened:
        run.task.pool(case.name)
        run.screened[case.name] = opening.measure(
            run.task, opening.learn_case(run.task, case), run.tell, 0.4
        )
    return run.screened[case.name]


def _behind(run: Run, processes: int, rng: random.Random) -> str:
    """Why a search need not go on timing a candidate that its first processes show far behind the
    best so far; empty where it must. The more of them, the surer is their figure."""
    best = run.request.best
    if run.request.renews or not best:
        return ""
    compared = {
        name: _compared(run, name, _strongest(times), rng) for name, times in run.times.items()
    }
    own = fitness(
        [replace(run.results[name], speedup=found.speedup) for name, found in compared.items()]
    )
    if own is None or own >= run.task.family.BEHIND ** (processes**-0.5) * best:
        return ""
    pairs = "the first pair" if processes == 1 else f"{processes} pairs"
    return (
        f"F = {own:.3f} in {pairs} of processes, and {best:.3f} is the best so far: not timed any "
        "further"
    )


def _undecided(run: Run, rng: random.Random) -> list[Case]:
    """Cases whose interval does not decide yet, but for held-out ones, which decide nothing about
    speed."""
    found = []
    for case in run.cases:
        times = run.times[case.name]
        compared = _compared(run, case.name, _strongest(times), rng)
        if not case.held_out and compared.verdict == "inconclusive" and not compared.doubted:
            found.append(case)
    return found


def _compared(run: Run, case: str, baseline: str, rng: random.Random) -> statistics.Comparison:
    """Under what is known of this device, and of a search's one baseline process."""
    family = run.task.family
    return statistics.compare(
        run.times[case].confirmed(baseline),
        family.MARGIN,
        rng,
        baselines=0 if run.confirming else _baselines(run),
        process_us=family.PROCESS_US,
        open_us=_open_us(run, case, baseline),
    )


def _strongest(times: case_times.CaseTimes) -> str:
    medians = _medians(times)
    return min(medians, key=lambda name: medians[name])


def _medians(times: case_times.CaseTimes) -> dict[str, float]:
    """Microseconds of each baseline."""
    names = list(times.blocks[0].pairs)
    rounds = {b: [*times.earlier.get(b, ()), *times.pairs(b)] for b in names}
    return {
        b: statistics.median([pair[0] for process in some for pair in process])
        for b, some in rounds.items()
    }


def _why_raised(run: Run, times: case_times.CaseTimes, baseline: str) -> str:
    """Why the figure is not the candidate's own. Below the margin it is raised, too, but that is
    noise and says nothing of anyone."""
    if times.alone_factor(baseline) > times.clock_factor:
        return MERGED
    if times.unmeasured_factor(baseline) > run.task.family.MARGIN:
        alone = statistics.median([own for process in times.pairs(baseline) for _, own in process])
        return AHEAD.format(alone=alone)
    said = WAITS if run.task.family.SYNCHRONOUS else UNCONFIRMED
    return said if times.clock_factor > run.task.family.MARGIN else ""


def conclude_case(run: Run, case: Case, rng: random.Random) -> None:
    """The result of a timed case over its strongest baseline. Raises Failure where the figures show
    a cheat."""
    times = run.times[case.name]
    by_judge = times.nothing_us is not None
    best = _strongest(times)
    open_us = _open_us(run, case.name, best)
    if not by_judge and times.clock_disagrees(
        roofline.copying_us(case, run.machine.ceilings_of(run.task.family))
    ):
        text = (
            f"case {case.name}: a burst took at least {times.seen_ns / 1e3:.0f} us by the judge's "
            f"clock and {times.claimed_ns / 1e3:.0f} us by the candidate's own, and the baseline "
            "shows no such gap: work is done outside the timed calls"
        )
        raise Failure("reward_hack", text, (Signal("cheat.clock", text),))
    confirmed = times.confirmed(best)
    compared = _compared(run, case.name, best, rng)
    latency = statistics.median([p[1] for process in confirmed for p in process])
    run.signals += blocks.doubts(case.name, times)
    floor_us = (
        roofline.impossible_us(case, run.machine.ceilings_of(run.task.family))
        if case.bytes_written
        else 0.0
    )
    if latency < floor_us and not run.ablating:
        text = (
            f"case {case.name}: {latency:.2f} us is below {floor_us:.2f} us, the least in which "
            "this machine can write the outputs"
        )
        raise Failure("reward_hack", text, (Signal("cheat.impossible_speed", text),))
    # what a baseline reached can be reached: a ceiling above it was measured in a busier moment
    roofline_time_us = (
        min([case.roofline_time_us, *_medians(times).values()]) if case.roofline_time_us else 0.0
    )
    if roofline_time_us and latency < 0.6 * roofline_time_us and latency > 1.0:
        text = (
            f"case {case.name}: {latency:.1f} us beats the measured roofline of "
            f"{roofline_time_us:.1f} us"
        )
        run.signals.append(Signal("suspect.implausible_speed", text))
    if numbers := run.task.pools[case.name].predictable:
        if compared.verdict == "faster":
            compared = replace(compared, verdict="inconclusive")
        text = (
            f"case {case.name}: output {numbers[0]} is the same in every draw, within what it may "
            "be off by: a number known beforehand would pass for it, so no speed-up is vouched for"
        )
        run.signals.append(Signal("output_predictable", text, {"output": float(numbers[0])}))
    # what slows the baseline down may be the candidate's; `doubts` tells of it
    if _is_contended(run, case.name):
        known = min(compared.speedup, case.baselines_us[best] / latency)
        compared = replace(
            compared,
            verdict="inconclusive" if compared.verdict == "faster" else compared.verdict,
            speedup=known,
            interval=(min(compared.interval[0], known), compared.interval[1]),
        )
    if compared.doubted:
        text = (
            f"case {case.name}: the figure is {compared.speedup:.2f}x, but the judge's clock "
            f"leaves open whether a call takes up to {open_us:.1f} us more than {latency:.1f} us, "
            "so it is not called faster"
        )
        run.signals.append(Signal("clock_open", text, {"open_us": open_us, "latency_us": latency}))
    run.results[case.name] = replace(
        run.results[case.name],
        speedup=compared.speedup,
        interval=compared.interval,
        verdict=compared.verdict,
        baseline=best,
        baselines=_medians(times),
        latency_us=latency,
        clock="judge" if by_judge else "candidate",
        open_us=open_us,
        warm_us=times.median_of("warm_us", ""),
        baseline_warm_us=times.median_of("warm_us", best),
        end_to_end_us=times.median_of("end_to_end_us", ""),
        baseline_end_to_end_us=times.median_of("end_to_end_us", best),
        dispatch_us=times.median_of("dispatch_us", ""),
        launch_us=statistics.median(times.all("launch_us")),
        roofline_fraction=min(roofline_time_us, latency) / latency if roofline_time_us else None,
        pairs=compared.pairs,
        detail=_why_raised(run, times, best),
        page_faults=statistics.median(times.all("faults")),
        baseline_page_faults=statistics.median(times.all("baseline_faults")),
        threads=1,
        allocation=run.machine.environment_of(run.task.family).allocation,
    )
