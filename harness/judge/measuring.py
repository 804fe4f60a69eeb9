"""The stage `time`: fresh candidate processes against the baselines, then an interval and a verdict for each case."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

from ..types import Case, Signal
from . import beside, blocks, bounds, opening, statistics, timing
from .failures import Failure
from .run import Run, keep_compiled, start_worker

REPEATS, REPEATS_OF_ONE = 4, 2  # measured again because something else used the device: in one confirmation, and one block
SEARCH_REPEATS = 1  # in a search, whose winner is measured again anyway
PAUSE_S = 0.25  # before one of them: what disturbed it may pass

UNCONFIRMED = "the judge's clock does not reproduce the candidate's own, which said faster: the figure is the judge's"


def time_candidate(run: Run) -> dict[str, Any]:
    """Fresh candidate processes, one after the other; each runs every case against its baselines. What the device's state makes
    doubtful is measured again by one more fresh process, within bounds."""
    keep_compiled(run)
    if run.loaded is not None:
        run.loaded.close()
        run.loaded = None
    rng = timing.fresh_rng()
    run.times = {c.name: timing.CaseTimes() for c in run.cases}
    repeats = REPEATS if run.confirming else SEARCH_REPEATS
    for process in range(timing.PROCESSES):
        if run.confirming and process:
            run.task.restart()
        worker = start_worker(run)
        try:
            for number, case in enumerate(run.cases):
                fraction = 0.4 + 0.5 * (process + number / len(run.cases)) / timing.PROCESSES
                run.tell("time", f"process {process + 1} of {timing.PROCESSES}, case {case.name}", fraction)
                screened, times = _with_baselines(run, case), run.times[case.name]
                baselines = timing.contenders(screened, every=run.confirming)
                block = blocks.time_case(run, screened, worker, baselines, rng)
                tries = REPEATS_OF_ONE
                while block.disturbances and repeats and tries:
                    repeats, tries, times.repeated = repeats - 1, tries - 1, times.repeated + 1
                    run.tell("time", f"case {case.name} again: {block.disturbances[0].text}", fraction)
                    worker.close()
                    time.sleep(PAUSE_S)
                    worker = start_worker(run)
                    block = blocks.time_case(run, screened, worker, baselines, rng)
                times.blocks.append(block)
                if run.confirming and run.task.crowded:
                    run.task.release(case.name)
        finally:
            worker.close()
    for case in run.cases:
        _conclude_case(run, _with_baselines(run, case), rng)
    if run.request.purpose == "confirm":
        beside.measure(run, rng)
    return {
        "processes": timing.PROCESSES,
        "clocks_us": {n: (t.claimed_ns / 1e3, t.seen_ns / 1e3) for n, t in run.times.items()},
        "blocks": {n: blocks.report(t) for n, t in run.times.items()},
    }


def _with_baselines(run: Run, case: Case) -> Case:
    """A case with its screening: from the task, or measured now (held-out cases, a task opened for a check)."""
    if case.baselines_us:
        return case
    if case.name not in run.screened:
        run.task.pool(case.name)
        run.screened[case.name] = opening.measure(run.task, opening.learn_case(run.task, case), run.tell, 0.4)
    return run.screened[case.name]


def _conclude_case(run: Run, case: Case, rng: Any) -> None:
    times = run.times[case.name]
    if times.clock_disagrees:
        text = (
            f"case {case.name}: a burst took at least {times.seen_ns / 1e3:.0f} us by the judge's clock and {times.claimed_ns / 1e3:.0f} us by the "
            "candidate's own, and the baseline shows no such gap: work is done outside the timed calls"
        )
        raise Failure("cheated", text, (Signal("cheat.clock", text),))
    names = list(times.blocks[0].pairs)
    medians = {b: statistics.median([p[0] for process in times.pairs(b) for p in process]) for b in names}
    best = min(medians, key=lambda name: medians[name])
    confirmed = times.confirmed(best)
    compared = statistics.compare(confirmed, run.task.family.MARGIN, rng)
    latency = statistics.median([p[1] for process in confirmed for p in process])
    run.signals += blocks.doubts(case.name, times)
    floor_us = bounds.impossible_us(case, run.machine.ceilings_of(run.task.family)) if case.bytes_written else 0.0
    if latency < floor_us:
        text = f"case {case.name}: {latency:.2f} us is below {floor_us:.2f} us, the least in which this machine can write the outputs"
        raise Failure("cheated", text, (Signal("cheat.impossible_speed", text),))
    if case.roofline_us and latency < 0.6 * case.roofline_us and latency > 1.0:
        text = f"case {case.name}: {latency:.1f} us beats the measured roofline of {case.roofline_us:.1f} us"
        run.signals.append(Signal("suspect.implausible_speed", text))
    run.results[case.name] = replace(
        run.results[case.name],
        speedup=compared.speedup,
        interval=compared.interval,
        verdict=compared.verdict,
        baseline=best,
        baselines={**{b: us for b, us in case.baselines_us.items() if us}, **medians},
        latency_us=latency,
        hot_us=times.beside("hot_us", ""),
        baseline_hot_us=times.beside("hot_us", best),
        call_us=times.beside("call_us", ""),
        baseline_call_us=times.beside("call_us", best),
        host_us=statistics.median(times.all("host_us")),
        roofline=case.roofline_us / latency if case.roofline_us else None,
        pairs=compared.pairs,
        detail=UNCONFIRMED if confirmed != times.pairs(best) else "",
        page_faults=statistics.median(times.all("faults")),
        baseline_page_faults=statistics.median(times.all("baseline_faults")),
        threads=1,
        allocation=run.machine.environment_of(run.task.family).allocation,
    )
