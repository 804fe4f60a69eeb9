"""What a confirmation measures beside the verdict: every core of a CPU, and the figure that an
unfair comparison would give."""

from __future__ import annotations

import os
import random
from dataclasses import replace

from ...types import AllCores, Case
from ..figures import case_times, statistics
from ..run import Run, start_worker
from . import blocks, naive, paired

ENOUGH_CORES = 4  # for a verdict: with fewer, the system's own work sits on one of them


def measure(run: Run, rng: random.Random) -> None:
    """Adds to the results of every case that was judged on a CPU; held-out cases decide nothing
    about speed, so they go without."""
    cores = sorted(os.sched_getaffinity(0))
    wanted = run.task.family.EXTRA_FIGURES
    for case in run.cases:
        if wanted and len(cores) > 1 and not case.held_out:
            run.tell("time", f"case {case.name} with {len(cores)} threads", 0.91)
            run.results[case.name] = replace(
                run.results[case.name], all_cores=_all_cores(run, case, cores, rng)
            )
        if wanted and not run.request.cases and not case.held_out:
            run.tell("time", f"the naive figure of case {case.name}, for comparison", 0.92)
            result = run.results[case.name]
            figure = naive.eager_us(
                run.task, case.name, run.task.timing_cpus, result.latency_us or 0.0
            )
            if figure and result.latency_us:
                run.results[case.name] = replace(result, naive_speedup=figure / result.latency_us)
        run.task.release(case.name)


def _all_cores(run: Run, case: Case, cores: list[int], rng: random.Random) -> AllCores:
    """Against the strongest baseline of the verdict. With enough cores in as many fresh processes
    as a verdict takes, else in one."""
    judged = len(cores) >= ENOUGH_CORES
    baseline = run.results[case.name].baseline or "eager"
    times = case_times.CaseTimes()
    for _ in range(paired.PROCESSES if judged else 1):
        worker = start_worker(run, cores=cores)
        try:
            times.blocks.append(
                blocks.time_case(
                    run, run.screened.get(case.name, case), worker, [baseline], rng, cores
                )
            )
        finally:
            worker.close()
    processes = times.confirmed(baseline)
    compared = statistics.compare(processes, run.task.family.MARGIN, rng, open_us=times.open_us)
    return AllCores(
        len(cores),
        statistics.median([own for pairs in processes for _, own in pairs]),
        statistics.median([other for pairs in processes for other, _ in pairs]),
        compared.speedup,
        compared.interval if judged else None,
        compared.verdict if judged else None,
    )
