"""What a confirmation measures beside the verdict: every core of a CPU, and the figure that an
unfair comparison would give."""

from __future__ import annotations

import os
import random
from dataclasses import replace

from ...types import AllCores, Case, CaseResult
from ..candidate_workers import start_worker
from ..figures import case_times, statistics
from ..stage_context import StageContext
from ..tasks.baseline_screening import Screening
from . import blocks, naive, paired

ENOUGH_CORES = 4  # for a verdict: with fewer, the system's own work sits on one of them


def measured(
    context: StageContext, case: Case, result: CaseResult, screening: Screening, rng: random.Random
) -> CaseResult:
    """The result with these figures, if the case was judged on a CPU; held-out cases decide nothing
    about speed, so they go without. Raises Failure where outputs are wrong with all threads."""
    cores = sorted(os.sched_getaffinity(0))
    wanted = context.task.family.EXTRA_FIGURES and not case.held_out
    if wanted and len(cores) > 1:
        context.tell("time", f"case {case.name} with {len(cores)} threads", 0.91)
        baseline = result.baseline or "eager"
        all_cores = _all_cores(context, screening.of(case), baseline, cores, rng)
        result = replace(result, all_cores=all_cores)
    if wanted and not context.request.cases:
        context.tell("time", f"the naive figure of case {case.name}, for comparison", 0.92)
        figure = naive.eager_us(
            context.task, case.name, context.task.timing_cpus, result.latency_us or 0.0
        )
        if figure and result.latency_us:
            result = replace(result, naive_speedup=figure / result.latency_us)
    context.task.release(case.name)
    return result


def _all_cores(
    context: StageContext, case: Case, baseline: str, cores: list[int], rng: random.Random
) -> AllCores:
    """Against the strongest baseline of the verdict. With enough cores in as many fresh processes
    as a verdict takes, else in one."""
    judged = len(cores) >= ENOUGH_CORES
    times = case_times.CaseTimes()
    for _ in range(paired.PROCESSES if judged else 1):
        worker = start_worker(context, cores=cores)
        try:
            times.blocks.append(blocks.time_case(context, case, worker, [baseline], rng, cores))
        finally:
            worker.close()
    processes = times.confirmed(baseline)
    compared = statistics.compare(processes, context.task.family.MARGIN, rng, open_us=times.open_us)
    return AllCores(
        len(cores),
        statistics.median([own for pairs in processes for _, own in pairs]),
        statistics.median([other for pairs in processes for other, _ in pairs]),
        compared.speedup,
        compared.interval if judged else None,
        compared.verdict if judged else None,
    )
