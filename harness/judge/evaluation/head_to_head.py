"""Candidates against each other: each is built and verified alone, then all that are right are
timed in the same rounds.

What two of them differ by is taken from rounds in which both were timed, so that whatever slows the
machine meanwhile slows both. Each round has a burst of the strongest baseline as well: beside it
the judge sees, as in any evaluation, what a candidate hides from its figure.
"""

from __future__ import annotations

import math
import os
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ...settings import timing_effort
from ...types import HeadToHead, Stage, StageReport
from ..attribution import own_work
from ..failures import Failure
from ..figures import case_times
from ..run import Run, keep_compiled, prestart, start_worker
from ..timing import blocks, interleaved, paired, ratios
from ..timing.measuring import conclude_case, with_baselines
from .checking import verify
from .pipeline import build, conclude

# of each candidate, for pairs that the first ones leave inconclusive; times the effort, and never
# above the next
MOST_PROCESSES = 12
BOUND = 36
REPEATS = 2  # of all candidates' processes, because something else used the device


@dataclass
class _Contestant:
    """One candidate of a comparison, and why it takes no part any more."""

    number: int
    run: Run
    failure: Failure | None = None

    def attempt(self, stage: Stage, step: Callable[[Run], Any]) -> None:
        """Run a step of the evaluation; a failure is noted as that stage's."""
        begun = time.monotonic()
        try:
            data = step(self.run)
        except Failure as failure:
            self.failure = failure
            self._report(stage, begun, failure)
        else:
            self.run.reports.append(StageReport(stage, True, time.monotonic() - begun, data=data))

    def lose(self, failure: Failure, begun: float) -> None:
        """It failed while it was timed."""
        self.failure = failure
        self._report("time", begun, failure)

    def _report(self, stage: Stage, begun: float, failure: Failure) -> None:
        self.run.reports.append(
            StageReport(stage, False, time.monotonic() - begun, failure.message, failure.log)
        )


def compare(runs: Sequence[Run], effort: float) -> HeadToHead:
    """Always a comparison, in which candidates that failed take no part; trouble of the evaluator
    itself is raised. runs: one for each candidate, of one open task."""
    began = time.monotonic()
    contestants = [_Contestant(number, run) for number, run in enumerate(runs)]
    processes = 0
    try:
        for each in contestants:
            _prove(each)
        rng = paired.fresh_rng()
        processes = _time(contestants, effort, rng)
        able = _able(contestants) if processes else []
        duels = [
            ratios.duel(b.number, b.run, a.number, a.run, rng)
            for i, b in enumerate(able)
            for a in able[:i]
        ]
        prestart(runs[0])
    finally:
        for run in runs:
            if run.loaded is not None:
                run.loaded.close()
            if run.compiled is not None:
                os.close(run.compiled)
            run.builds.close()
    seconds = time.monotonic() - began
    evaluations = tuple(conclude(each.run, each.failure, seconds) for each in contestants)
    fair = [
        d for d in duels if all(evaluations[n].status == "correct" for n in (d.first, d.second))
    ]
    return HeadToHead(evaluations, tuple(fair), processes, seconds)


def _able(contestants: Sequence[_Contestant]) -> list[_Contestant]:
    return [each for each in contestants if each.failure is None]


def _prove(each: _Contestant) -> None:
    """Build and verify, as in any evaluation."""
    run = each.run
    each.attempt("build", build)
    if each.failure is None:
        each.attempt("verify", verify)
    if each.failure is None:
        keep_compiled(run)
    if run.loaded is not None:
        run.machine.reaper.add(run.loaded)
        run.loaded = None


def _time(contestants: Sequence[_Contestant], effort: float, rng: random.Random) -> int:
    """Time all that are right in the same rounds, in fresh processes until each is told from the
    first; how many processes each had."""
    begun, able = time.monotonic(), _able(contestants)
    for each in able:
        each.run.times = {case.name: case_times.CaseTimes() for case in each.run.cases}
    process, repeats, deadline = 0, REPEATS, math.inf
    most = min(BOUND, round(effort * MOST_PROCESSES))
    while len(able) > 1:
        try:
            found = _process([each.run for each in able], process, rng)
        except interleaved.Lost as lost:
            able[lost.place].lose(lost.failure, begun)
            able = _able(contestants)
            continue
        if repeats and any(block.disturbances for some in found for block in some.values()):
            repeats -= 1
            continue
        for each, some in zip(able, found, strict=True):
            for name, block in some.items():
                each.run.times[name].blocks.append(block)
        process += 1
        if process == paired.PROCESSES:
            deadline = (
                time.monotonic() + effort * timing_effort() * able[0].run.task.family.PATIENCE_S
            )
        if process >= paired.PROCESSES:
            settled = all(ratios.is_settled(each.run, able[0].run, rng) for each in able[1:])
            if settled or process >= most or time.monotonic() > deadline:
                break
    if not process or len(able) < 2:
        return 0
    for each in able:
        each.attempt("time", lambda run: _conclude(run, rng))
    return process


def _process(
    runs: Sequence[Run], process: int, rng: random.Random
) -> list[dict[str, case_times.Block]]:
    """The blocks of one fresh process of each candidate, by case. Raises Lost."""
    first = runs[0]
    first.machine.reaper.wait()
    workers, found = [], [dict[str, case_times.Block]() for _ in runs]
    try:
        for place, run in enumerate(runs):
            with interleaved.losing(place):
                workers.append(start_worker(run))
        for number, case in enumerate(first.cases):
            fraction = 0.5 + 0.4 * min(
                1.0, (process + number / len(first.cases)) / paired.PROCESSES
            )
            text = (
                f"{len(runs)} candidates in turn, process {process + 1} of at least "
                f"{paired.PROCESSES}, case {case.name}"
            )
            first.tell("time", text, fraction)
            screened = with_baselines(first, case)
            measured = interleaved.time_case(
                screened, runs, workers, paired.strongest(screened), rng
            )
            for some, block in zip(found, measured, strict=True):
                some[case.name] = block
        return found
    finally:
        for worker in workers:
            worker.close()


def _conclude(run: Run, rng: random.Random) -> dict[str, object]:
    """Results over the baseline, and who does the work. Raises Failure where the figures show a
    cheat."""
    for case in run.cases:
        conclude_case(run, with_baselines(run, case), rng)
    own_work.examine(run)
    return {"blocks": {name: blocks.report(times) for name, times in run.times.items()}}
