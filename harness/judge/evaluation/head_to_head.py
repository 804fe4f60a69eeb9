"""Comparisons of candidates: each is built and verified alone, then all correct ones are timed in
the same rounds.

The difference of two candidates is taken from rounds in which both were timed, so that anything
that slows the machine slows both. Each round also has a burst of the strongest baseline, by which
the judge detects, as in any evaluation, time that a candidate hides from its figure.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from ...settings import timing_effort
from ...types import HeadToHead, Signal
from ..candidate_workers import end_worker, prestart, start_worker
from ..failures import Failure
from ..figures.block import Block
from ..figures.case_times import CaseTimes
from ..outcomes import Outcome, Timed, Verified
from ..processes.freezing import HeldProcesses
from ..processes.worker import Worker
from ..stage_context import StageContext
from ..tasks.baseline_screening import Screening
from ..timing import blocks, concluding, interleaved, paired, ratios
from ..timing.measuring import with_wrong
from . import verdict_memory
from .pipeline import build, conclude
from .profiling import whose_work
from .progress import Holdings, Progress
from .verification import verify

# processes of each candidate, for pairs that the first ones leave inconclusive; multiplied by the
# effort, up to BOUND
MOST_PROCESSES = 12
BOUND = 36
REPEATS = 2  # of all candidates' processes, because something else used the device


class _Contestant:
    """One candidate of a comparison with its progress through the stages. It leaves the comparison
    when it fails."""

    def __init__(self, number: int, context: StageContext) -> None:
        self.number, self.context = number, context
        self.progress = Progress()
        self.times: dict[str, CaseTimes] = {}
        self._verified = Verified()
        self._holdings = Holdings(context)

    @property
    def able(self) -> bool:
        """Whether it takes part."""
        return self.progress.failure is None

    @property
    def entrant(self) -> ratios.Entrant:
        """The candidate with its measurements."""
        return ratios.Entrant(self.number, self.context, self.times)

    def prove(self) -> None:
        """Build and verify, as in any evaluation, unless that was done since the task was
        opened."""
        context = self.context
        if (earlier := verdict_memory.find(context)) is not None:
            self.progress, self._verified = earlier
            return
        self.progress, built = self.progress.stage("build", lambda: build(context))
        self._holdings.hold(built.worker)
        if self.able:
            self.progress, self._verified = self.progress.stage(
                "verify", lambda: verify(context, built)
            )
            verdict_memory.note(context, self._verified)
        if self.able:
            begun = time.monotonic()
            try:
                self.context = self._holdings.hand_on()
            except Failure as failure:
                self.lose(failure, begun)
        self._holdings.let_go()

    def lose(self, failure: Failure, begun: float) -> None:
        """Record a failure during timing."""
        results = with_wrong(self.progress.results, failure)
        outcome = Timed(results=results, failure=failure)
        self.progress = self.progress.after("time", outcome, time.monotonic() - begun)

    def conclude(self, screening: Screening, rng: random.Random) -> None:
        """Conclude the results against the baseline, and find out what does the work."""
        self.progress, _ = self.progress.stage("time", lambda: self._conclude_cases(screening, rng))

    def doubt(self, signal: Signal) -> None:
        """Add a signal from the comparison with another candidate."""
        signals = (*self.progress.signals, signal)
        self.progress = replace(self.progress, signals=signals)

    def close(self) -> None:
        """Close everything that it still holds."""
        self._holdings.close()

    def _conclude_cases(self, screening: Screening, rng: random.Random) -> Outcome:
        signals, results = list[Signal](), dict(self.progress.results)
        for case in self.context.cases:
            conclusion = concluding.conclude(
                self.context, screening.of(case), results[case.name], self.times, rng
            )
            signals += conclusion.signals
            results[case.name] = conclusion.result
            if conclusion.failure is not None:
                return Timed({}, signals, results, conclusion.failure)
        work = whose_work(self.context, results, self._verified.launches)
        data = {"blocks": {name: blocks.report(times) for name, times in self.times.items()}}
        return Timed(
            {} if work.failure else data,
            (*signals, *work.signals),
            work.results,
            work.failure,
            self.times,
        )


def compare(contexts: Sequence[StageContext], effort: float) -> HeadToHead:
    """Compare candidates. Returns a comparison in every case, without candidates that failed;
    errors of the evaluator itself are raised. contexts: one for each candidate, of one open
    task."""
    began = time.monotonic()
    contestants = [_Contestant(number, context) for number, context in enumerate(contexts)]
    processes, duels = 0, []
    try:
        for each in contestants:
            each.prove()
            each.context.machine.reaper.wait()  # before another one's process starts
        rng = paired.fresh_rng()
        processes = _time(contestants, effort, rng)
        able = _able(contestants) if processes else []
        for i, b in enumerate(able):
            for a in able[:i]:
                duel, doubted = ratios.duel(b.entrant, a.entrant, rng)
                duels.append(duel)
                for number, signal in doubted.items():
                    contestants[number].doubt(signal)
        prestart(contexts[0])
    finally:
        for each in contestants:
            each.close()
    seconds = time.monotonic() - began
    evaluations = tuple(conclude(each.context, each.progress, seconds) for each in contestants)
    fair = [
        d for d in duels if all(evaluations[n].status == "correct" for n in (d.first, d.second))
    ]
    return HeadToHead(evaluations, tuple(fair), processes, seconds)


def _able(contestants: Sequence[_Contestant]) -> list[_Contestant]:
    return [each for each in contestants if each.able]


def _time(contestants: Sequence[_Contestant], effort: float, rng: random.Random) -> int:
    """Time all correct candidates in the same rounds, in fresh processes until the comparison of
    each with the first is settled. Returns the number of processes of each."""
    begun, able = time.monotonic(), _able(contestants)
    for each in able:
        each.times = {case.name: CaseTimes() for case in each.context.cases}
    screening = Screening(contestants[0].context.task, contestants[0].context.tell)
    process, repeats, deadline = 0, REPEATS, math.inf
    most = min(BOUND, round(effort * MOST_PROCESSES))
    while len(able) > 1:
        try:
            block_sets = _process([each.context for each in able], screening, process, rng)
        except interleaved.Lost as loss:
            able[loss.place].lose(loss.failure, begun)
            able = _able(contestants)
            continue
        if repeats and any(
            block.disturbances for blocks_by_case in block_sets for block in blocks_by_case.values()
        ):
            repeats -= 1
            continue
        for each, blocks_by_case in zip(able, block_sets, strict=True):
            for name, block in blocks_by_case.items():
                each.times[name].blocks.append(block)
        process += 1
        if process == paired.PROCESSES:
            patience_s = able[0].context.task.family.PATIENCE_S
            deadline = time.monotonic() + effort * timing_effort() * patience_s
        if process >= paired.PROCESSES:
            first = able[0].entrant
            settled = all(ratios.is_settled(each.entrant, first, rng) for each in able[1:])
            if settled or process >= most or time.monotonic() > deadline:
                break
    if not process or len(able) < 2:
        return 0
    for each in able:
        each.conclude(screening, rng)
    return process


def _process(
    contexts: Sequence[StageContext], screening: Screening, process: int, rng: random.Random
) -> list[dict[str, Block]]:
    """Time one fresh process of each candidate and return the blocks by case. At any time at most
    one of the processes runs. Raises Lost."""
    first = contexts[0]
    blocks.draw(first, screening.of(first.cases[0]), len(contexts))
    first.machine.reaper.wait()
    workers, block_sets = list[Worker](), [dict[str, Block]() for _ in contexts]
    held = HeldProcesses()
    try:
        for place, context in enumerate(contexts):
            with interleaved.losing(place):
                worker = start_worker(context)
                workers.append(worker)
                context.guard("loading", worker, partial(held.stop, worker.root))
        for number, case in enumerate(first.cases):
            fraction = 0.5 + 0.4 * min(
                1.0, (process + number / len(first.cases)) / paired.PROCESSES
            )
            text = (
                f"{len(contexts)} candidates in turn, process {process + 1} of at least "
                f"{paired.PROCESSES}, case {case.name}"
            )
            first.tell("time", text, fraction)
            screened = screening.of(case)
            measured = interleaved.time_case(
                screened, contexts, workers, held, paired.strongest(screened), rng
            )
            for blocks_by_case, block in zip(block_sets, measured, strict=True):
                blocks_by_case[case.name] = block
        return block_sets
    finally:
        for worker in workers:
            end_worker(first, worker)
