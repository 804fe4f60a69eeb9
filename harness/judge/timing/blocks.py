"""One timed block: a candidate process against the baselines on one case, and what disturbed it."""

from __future__ import annotations

import contextlib
import os
import random
from collections.abc import Iterator, Sequence
from typing import Any

from ...types import Case, Signal
from ..candidate_workers import prepare
from ..failures import Failure
from ..figures import case_times
from ..figures.block import Block
from ..processes.worker import Worker
from ..stage_context import StageContext
from ..tasks.drawer import Drawer
from ..tasks.timing_plan import CONFIRMATION_BURSTS, SEARCH_BURSTS
from . import causes, paired, timed_outputs
from .rounds import TimedCandidate


def draw(context: StageContext, case: Case, candidates: int = 1) -> None:
    """Draw the sets on which a case is timed in the next process, unless they exist; each of
    several candidates gets its own."""
    pool = context.task.pools[case.name]
    pool.ask_for_bits(context.bitwise)
    context.task.drawer.draw_timing(
        pool,
        min(case.baselines_us.values()),
        CONFIRMATION_BURSTS if context.confirming else SEARCH_BURSTS,
        candidates,
    )


def time_case(
    context: StageContext,
    case: Case,
    worker: Worker,
    baselines: list[str],
    rng: random.Random,
    cores: Sequence[int] = (),
    *,
    hot: bool = True,
) -> Block:
    """Time one block: a candidate process against baselines, on the timing core or on `cores` with
    a thread each. hot: also measure warm figures and the baselines' memory."""
    pool = context.task.pools[case.name]
    draw(context, case)
    slots = prepare(context, worker, pool, 1 if pool.one_by_one else pool.calls)

    def measure() -> list[Block]:
        return paired.time_block(
            context.task,
            case,
            [TimedCandidate(0, worker, slots)],
            baselines,
            context.lock,
            context.cancel,
            rng,
            one_core=not cores,
            checked=not context.ablating,
            hot=hot,
        )

    try:
        with ready_baselines(context, case.name, baselines, cores):
            (block,) = context.guard(f"case {case.name}, timed", worker, measure)
    except timed_outputs.WrongWhenTimed as wrong:
        when = f"wrong with {len(cores)} threads" if cores else "wrong while it was timed"
        raise timed_failure(wrong, when) from wrong
    return block


@contextlib.contextmanager
def ready_baselines(
    context: StageContext, case: str, baselines: list[str], cores: Sequence[int] = ()
) -> Iterator[None]:
    """Prepare the baselines' process for one block of a case: on the timing core, or on `cores`
    with a thread each. Afterwards no process sees the block's inputs any more."""
    task, pool = context.task, context.task.pools[case]
    cpus, changes = list(cores or task.timing_cpus), len(pool.halves) > 1
    try:
        task.drawer.set_state(pool, 0)
        task.prepare_baselines(case, baselines)
        task.baseline_worker.ask("threads", seconds=60, count=len(cores) or 1, cpus=cpus)
        yield
    finally:
        pool.release()
        if changes and task.has_baselines(case):
            Drawer(task.baseline_worker).take_state(pool, 0)
        everywhere = sorted(os.sched_getaffinity(0))
        task.baseline_worker.ask("threads", seconds=60, count=1, cpus=everywhere)


def timed_failure(wrong: timed_outputs.WrongWhenTimed, when: str) -> Failure:
    """Return the failure that ends the evaluation."""
    text, finding = f"{wrong} (right while it was checked, {when})", wrong.finding
    signal = Signal(finding.signal or "wrong.values", text)
    return Failure("incorrect", text, (signal,), wrong=(wrong.case, finding))


def report(times: case_times.CaseTimes) -> dict[str, Any]:
    """Report the device's state around the valid blocks, by process, and the number of blocks that
    were measured again."""
    baseline = next(iter(times.blocks[0].pairs), "") if times.blocks else ""
    noise = causes.explain(times, baseline)
    states = [
        {
            "before": b.before.facts,
            "after": b.after.facts,
            "disturbances": [d.text for d in b.disturbances],
        }
        for b in times.blocks
    ]
    return {"repeated": times.repeated, "counted": states, "ratios": list(noise.ratios)}


def doubts(case: str, times: case_times.CaseTimes) -> list[Signal]:
    """Return signals about blocks that are used although they were disturbed."""
    texts_by_signal: dict[str, list[str]] = {}
    for block in times.blocks:
        for name, text in {d.signal: d.text for d in block.disturbances}.items():
            texts_by_signal.setdefault(name, []).append(text)
    return [
        Signal(
            name,
            f"case {case}: {len(texts)} of {len(times.blocks)} timed blocks were disturbed, "
            f"{times.repeated} were measured again; {texts[-1]}",
            {"disturbed": float(len(texts)), "repeated": float(times.repeated)},
        )
        for name, texts in texts_by_signal.items()
    ]
