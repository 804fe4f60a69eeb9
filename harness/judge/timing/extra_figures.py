"""Additional figures of a confirmation: all cores of a CPU, and the figure of a naive
comparison."""

from __future__ import annotations

import os
import random
from dataclasses import replace

from ...types import AllCores, Case, CaseResult
from ..candidate_workers import start_worker
from ..errors import WorkerDied, WorkerFailed, WorkerTimeout
from ..exchange import bursts
from ..figures import case_times, statistics
from ..stage_context import StageContext
from ..tasks.baseline_screening import Screening
from ..tasks.drawer import Drawer
from ..tasks.open_task import OpenTask
from . import blocks, paired
from .left_open import hidden_us

ENOUGH_CORES = 4  # least number for a verdict: with fewer, the system's own work disturbs one


def measure_extra_figures(
    context: StageContext, case: Case, result: CaseResult, screening: Screening, rng: random.Random
) -> CaseResult:
    """Add these figures to the result, if the case was judged on a CPU; held-out cases decide
    nothing about speed, so they go without. Raises Failure where outputs are wrong with all
    threads."""
    cores = sorted(os.sched_getaffinity(0))
    has_figures = context.task.family.EXTRA_FIGURES and not case.held_out
    if has_figures and len(cores) > 1:
        context.tell("time", f"case {case.name} with {len(cores)} threads", 0.91)
        baseline = result.baseline or "eager"
        all_cores = _all_cores(context, screening.of(case), baseline, cores, rng)
        result = replace(result, all_cores=all_cores)
    if has_figures and not context.request.cases:
        context.tell("time", f"the naive figure of case {case.name}, for comparison", 0.92)
        figure = _naive_us(
            context.task, case.name, context.task.timing_cpus, result.latency_us or 0.0
        )
        if figure and result.latency_us:
            result = replace(result, naive_speedup=figure / result.latency_us)
    context.task.release(case.name)
    return result


def _all_cores(
    context: StageContext, case: Case, baseline: str, cores: list[int], rng: random.Random
) -> AllCores:
    """Compare with the strongest baseline on all cores; with enough cores in as many fresh
    processes as a verdict needs, otherwise in one."""
    is_verdict = len(cores) >= ENOUGH_CORES
    times = case_times.CaseTimes()
    for _ in range(paired.PROCESSES if is_verdict else 1):
        worker = start_worker(context, cores=cores)
        try:
            times.blocks.append(blocks.time_case(context, case, worker, [baseline], rng, cores))
        finally:
            worker.close()
    processes = times.confirmed_pairs(baseline)
    comparison = statistics.compare(
        processes,
        context.task.family.MARGIN,
        rng,
        open_us=times.clock_open_us
        + hidden_us(context, times, case.name, baseline)
        + times.unseen_us,
    )
    return AllCores(
        len(cores),
        statistics.median([candidate_us for pairs in processes for _, candidate_us in pairs]),
        statistics.median([baseline_us for pairs in processes for baseline_us, _ in pairs]),
        comparison.speedup,
        comparison.interval if is_verdict else None,
        comparison.verdict if is_verdict else None,
    )


def _naive_us(task: OpenTask, case: str, cpus: list[int], latency_us: float) -> float | None:
    """Return the median microseconds of eager under default allocation, timed alone; None if that
    fails. latency_us: the approximate time of a call. A usual benchmark lets eager allocate new,
    page-faulting output memory in each call, while the kernel writes to memory that it already has;
    this figure shows the difference from the fair one."""
    pool = task.pools[case]
    task.drawer.draw_timing(pool, latency_us)
    worker, _ = task.workers.start(allocation=False)
    try:
        Drawer(worker).construct(pool)
        slots = bursts.slots(pool, pool.calls)
        worker.ask(
            "baseline",
            [*slots.fds],
            seconds=120,
            case=case,
            name="eager",
            slots=slots.count,
            slot_bytes=pool.slot_bytes,
        )
        worker.ask("threads", seconds=60, count=1, cpus=cpus)
        times_us = []
        for number in range(7):
            sets = bursts.group(pool, number).sets
            result = bursts.run(worker, slots, f"{case}/eager", sets, list(range(len(sets))), 120)
            times_us.append(result.inside_ns / 1e3 / len(sets))
        return statistics.median(times_us[2:])
    except (WorkerFailed, WorkerDied, WorkerTimeout):
        return None  # a figure for illustration only
    finally:
        worker.close()
