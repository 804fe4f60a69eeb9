"""The stage `time`: fresh candidate processes against the baselines, then an interval and a verdict for each case."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

from ..types import Case, Signal
from . import bounds, bursts, naive, opening, statistics, timing
from .failures import Failure
from .processes import Worker
from .run import Run, call_seconds, keep_compiled, prepare, start_worker


def time_candidate(run: Run) -> dict[str, Any]:
    """Fresh candidate processes, one after the other; each runs every case against its baselines."""
    keep_compiled(run)
    if run.loaded is not None:
        run.loaded.close()
        run.loaded = None
    confirming = run.request.purpose in ("confirm", "export")
    rng = timing.fresh_rng()
    run.times = {c.name: timing.CaseTimes() for c in run.cases}
    for process in range(timing.PROCESSES):
        if confirming and process:
            run.task.restart()
        worker = start_worker(run)
        try:
            for number, case in enumerate(run.cases):
                fraction = 0.4 + 0.5 * (process + number / len(run.cases)) / timing.PROCESSES
                run.tell("time", f"process {process + 1} of {timing.PROCESSES}, case {case.name}", fraction)
                _time_case(run, _with_baselines(run, case), worker, process, rng, every=confirming)
        finally:
            worker.close()
    for case in run.cases:
        _conclude_case(run, _with_baselines(run, case), rng)
    if confirming and not run.request.cases:
        run.tell("time", "the naive figure, for comparison", 0.92)
        for case in run.cases:
            if not case.held_out:
                result = run.results[case.name]
                figure = naive.eager_us(run.machine, run.task, case.name)
                if figure and result.latency_us:
                    run.results[case.name] = replace(result, naive_speedup=figure / result.latency_us)
    return {"processes": timing.PROCESSES, "clock_gap_us": {n: t.hidden / 1e3 for n, t in run.times.items()}}


def _with_baselines(run: Run, case: Case) -> Case:
    """A case with its screening: from the task, or measured now (held-out cases, a task opened for a check)."""
    if case.baselines_us:
        return case
    if case.name not in run.screened:
        run.task.pool(case.name)
        run.screened[case.name] = opening.measure(run.task, opening.learn_case(run.task, case), run.tell, 0.4)
    return run.screened[case.name]


def _time_case(run: Run, case: Case, worker: Worker, process: int, rng: Any, *, every: bool) -> None:
    pool = run.task.pools[case.name]
    if not pool.timing:
        run.task.drawer.timing(pool, min(case.baselines_us.values()))
    baselines = timing.contenders(case, every=every)
    slots = prepare(run, worker, pool, max(bursts.CHECK_CALLS, pool.calls))
    run.task.drawer.state(pool, 0)
    run.task.prepare(case.name, baselines)
    run.task.worker.ask("threads", seconds=60, count=1, cpus=run.machine.timing_cpus)
    try:
        timing_seconds = call_seconds(case, pool.calls)
        run.guard(
            f"case {case.name}, timed",
            worker,
            lambda: timing.time_process(
                run.task, case, worker, slots, baselines, run.times[case.name], run.lock, run.cancel, rng, timing_seconds
            ),
        )
    except timing.WrongWhenTimed as wrong:
        run.results[case.name] = replace(run.results[case.name], correct=False, detail=wrong.finding.detail)
        text = f"{wrong} (right while it was checked, wrong while it was timed)"
        raise Failure("incorrect", text, (Signal(wrong.finding.signal or "wrong.values", text),)) from wrong
    finally:
        run.task.worker.ask("threads", seconds=60, count=1, cpus=sorted(os.sched_getaffinity(0)))


def _conclude_case(run: Run, case: Case, rng: Any) -> None:
    times = run.times[case.name]
    if times.clock_disagrees:
        text = (
            f"case {case.name}: the judge's clock saw {times.hidden / 1e3:.0f} us a burst more than the candidate's own "
            f"({statistics.median(times.inner_ns) / 1e3:.0f} us), and the baseline shows no such gap: work is done outside the timed calls"
        )
        raise Failure("cheated", text, (Signal("cheat.clock", text),))
    medians = {b: statistics.median([p[0] for process in pairs for p in process]) for b, pairs in times.pairs.items()}
    best = min(medians, key=lambda name: medians[name])
    compared = statistics.compare(times.pairs[best], run.task.family.MARGIN, rng)
    latency = statistics.median([p[1] for process in times.pairs[best] for p in process])
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
        host_us=statistics.median(times.host_us),
        roofline=case.roofline_us / latency if case.roofline_us else None,
        pairs=compared.pairs,
        page_faults=statistics.median(times.faults),
        baseline_page_faults=statistics.median(times.baseline_faults),
        threads=1,
        allocation=run.machine.environment_of(run.task.family).allocation,
    )
