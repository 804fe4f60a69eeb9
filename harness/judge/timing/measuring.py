"""The stage `time`: fresh candidate processes against the baselines, then an interval and a verdict
for each case."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ...settings import timing_effort
from ...types import Case, CaseResult, Samples, Signal, fitness, to_json
from ..candidate_workers import end_worker, prestart_timed, start_worker
from ..failures import Failure
from ..figures import statistics
from ..figures.case_times import Block, CaseTimes
from ..outcomes import Timed, Verified
from ..processes.worker import Worker
from ..stage_context import StageContext
from ..tasks.baseline_screening import Screening
from . import blocks, concluding, extra_figures, paired

# measured again because something else used the device: in one confirmation, and one block
REPEATS, REPEATS_OF_ONE = 4, 2
SEARCH_REPEATS = 1  # in a search, whose winner is measured again anyway
MOST_PROCESSES = 36  # of a confirmation, for cases that the first processes leave inconclusive
PAUSE_S = 0.25  # before one of them: what disturbed it may pass


def time_candidate(context: StageContext, verified: Verified) -> Timed:
    """Fresh candidate processes, one after the other; each runs every case against its baselines.
    What the device's state makes doubtful is measured again by one more fresh process, within
    bounds."""
    timing = _Timing(context, verified)
    try:
        timing.run()
    except Failure as failure:
        return timing.outcome(failure)
    return timing.outcome()


class _Timing:
    """What timing one candidate has found so far."""

    def __init__(self, context: StageContext, verified: Verified) -> None:
        self._context, self._rng = context, paired.fresh_rng()
        self._screening = Screening(context.task, context.tell)
        self._results = dict(verified.results)
        self._signals: list[Signal] = []
        earlier = context.request.earlier.rounds
        self._times = {c.name: CaseTimes(earlier=earlier.get(c.name, {})) for c in context.cases}
        self._repeats = REPEATS if context.confirming else SEARCH_REPEATS
        self._worker: Worker | None = None  # the candidate's process under way

    def run(self) -> None:
        """Raises Failure."""
        context = self._context
        self._processes()
        for case in context.cases:
            self._conclude(case)
        if context.request.purpose == "confirm":
            context.machine.reaper.wait()
            for case in context.cases:
                self._results[case.name] = extra_figures.measure_extra_figures(
                    context, case, self._results[case.name], self._screening, self._rng
                )

    def outcome(self, failure: Failure | None = None) -> Timed:
        """As far as it came."""
        if failure is None:
            return Timed(self._data(), self._signals, self._results, times=self._times)
        return Timed({}, self._signals, with_wrong(self._results, failure), failure, self._times)

    def _processes(self) -> None:
        """As many as it takes."""
        context = self._context
        least = round(paired.PROCESSES * context.request.effort)
        process, deadline, cases = 0, math.inf, context.cases
        while cases:
            self._process(process, cases)
            process += 1
            if process < paired.PROCESSES and (text := self._behind(process)):
                self._signals.append(Signal("timed_briefly", text))
                break
            if process == paired.PROCESSES:
                deadline = time.monotonic() + timing_effort() * context.task.family.PATIENCE_S
            if process >= paired.PROCESSES:
                more = (
                    context.confirming and process < MOST_PROCESSES and time.monotonic() < deadline
                )
                cases = (
                    self._undecided_cases()
                    if more
                    else []
                    if context.confirming or process >= least
                    else context.cases
                )

    def _process(self, process: int, cases: Sequence[Case]) -> None:
        """One fresh process on these cases, the first of the evaluation being 0."""
        context = self._context
        if context.request.renews:
            # neither side is always the first on the device
            context.task.restart_baselines(at_once=self._rng.random() < 0.5)
        if context.task.family.SLOW_START:  # begins before its candidate is loaded
            context.machine.reaper.wait()
            prestart_timed(context)
        blocks.draw(context, self._screening.of(cases[0]))
        try:
            self._start()
            context.machine.reaper.wait()  # compilers of this one among them
            for number, case in enumerate(cases):
                fraction = 0.4 + 0.5 * min(1.0, (process + number / len(cases)) / paired.PROCESSES)
                text = f"process {process + 1} of at least {paired.PROCESSES}, case {case.name}"
                context.tell("time", text, fraction)
                screened, times = self._screening.of(case), self._times[case.name]
                baselines = (
                    [concluding.strongest(times)]
                    if process >= paired.PROCESSES
                    else paired.contenders(screened, every=context.confirming)
                )
                # of a search the first process is enough for what is shown beside the verdict
                hot = context.confirming or not process
                times.blocks.append(self._block(screened, baselines, fraction, hot=hot))
                if context.confirming and context.task.crowds_memory:
                    context.task.release(case.name)
        finally:
            self._end()

    def _block(self, case: Case, baselines: list[str], fraction: float, *, hot: bool) -> Block:
        """One that counts: measured again where something else used the device."""
        block, tries = self._measure(case, baselines, hot=hot), REPEATS_OF_ONE
        while block.disturbances and self._repeats and tries:
            self._repeats, tries = self._repeats - 1, tries - 1
            self._times[case.name].repeated += 1
            text = f"case {case.name} again: {block.disturbances[0].text}"
            self._context.tell("time", text, fraction)
            self._end()
            time.sleep(PAUSE_S)
            self._start()
            block = self._measure(case, baselines, hot=hot)
        return block

    def _measure(self, case: Case, baselines: list[str], *, hot: bool) -> Block:
        assert self._worker is not None
        return blocks.time_case(self._context, case, self._worker, baselines, self._rng, hot=hot)

    def _start(self) -> None:
        # nothing of an earlier one is there, not even in flight, when this one begins
        self._context.machine.reaper.wait()
        self._worker = start_worker(self._context)

    def _end(self) -> None:
        worker, self._worker = self._worker, None
        if worker is not None:
            end_worker(self._context, worker)

    def _conclude(self, case: Case) -> None:
        screened, result = self._screening.of(case), self._results[case.name]
        conclusion = concluding.conclude(self._context, screened, result, self._times, self._rng)
        self._signals += conclusion.signals
        verdict = None if self._context.ablating else conclusion.result.verdict
        self._results[case.name] = replace(conclusion.result, verdict=verdict)
        if conclusion.failure is not None:
            raise conclusion.failure

    def _behind(self, processes: int) -> str:
        """Why a search need not go on timing a candidate that its first processes show far behind
        the best so far; empty where it must. The more of them, the surer is their figure."""
        context, best = self._context, self._context.request.best
        if context.request.renews or not best:
            return ""
        comparisons = {name: self._compare(name) for name in self._times}
        own_fitness = fitness(
            [
                replace(self._results[name], speedup=comparison.speedup)
                for name, comparison in comparisons.items()
            ]
        )
        if (
            own_fitness is None
            or own_fitness >= context.task.family.BEHIND ** (processes**-0.5) * best
        ):
            return ""
        pairs = "the first pair" if processes == 1 else f"{processes} pairs"
        return (
            f"F = {own_fitness:.3f} in {pairs} of processes, and {best:.3f} is the best so far: "
            "not timed any further"
        )

    def _undecided_cases(self) -> list[Case]:
        """Cases whose interval does not decide yet, but for held-out ones, which decide nothing
        about speed."""
        cases = []
        for case in self._context.cases:
            comparison = self._compare(case.name)
            if (
                not case.held_out
                and comparison.verdict == "inconclusive"
                and not comparison.doubted
            ):
                cases.append(case)
        return cases

    def _compare(self, case: str) -> statistics.Comparison:
        baseline = concluding.strongest(self._times[case])
        return concluding.compare(self._context, self._times, case, baseline, self._rng)

    def _data(self) -> dict[str, Any]:
        """Of the report."""
        times, strongest = self._times, concluding.strongest
        return {
            "processes": {n: len(t.blocks) for n, t in times.items()},
            "clocks_us": {n: (t.claimed_ns / 1e3, t.seen_ns / 1e3) for n, t in times.items()},
            "said_us": {
                n: statistics.median(process_ns) / 1e3
                for n, t in times.items()
                if (process_ns := t.all("process_clock_ns"))
            },
            "nothing_us": {n: t.nothing_us for n, t in times.items()},
            "ahead": {n: t.unmeasured_factor(strongest(t)) for n, t in times.items()},
            "alone": {n: t.alone_factor(strongest(t)) for n, t in times.items()},
            "blocks": {n: blocks.report(t) for n, t in times.items()},
            **({} if self._context.confirming else {"samples": to_json(self._samples())}),
        }

    def _samples(self) -> Samples:
        """What a later evaluation of the same key may join: the rounds of this one and those that
        it joined."""
        context, times = self._context, self._times
        rounds = {
            name: {
                b: tuple(
                    tuple((_round(x), _round(y)) for x, y in process)
                    for process in each.confirmed_pairs(b)
                )
                for b in each.blocks[0].pairs
            }
            for name, each in times.items()
        }
        open_us = {
            name: {b: concluding.left_open_us(context, times, name, b) for b in by_baseline}
            for name, by_baseline in rounds.items()
        }
        contended = tuple(n for n in rounds if concluding.is_contended(context, times, n))
        baselines = concluding.baseline_processes(context, times)
        return Samples(rounds, baselines, open_us, contended)


def with_wrong(results: Mapping[str, CaseResult], failure: Failure) -> Mapping[str, CaseResult]:
    """With the case marked whose output was wrong while it was timed, if that is how it failed."""
    if failure.wrong is None:
        return results
    case, finding = failure.wrong
    return {**results, case: replace(results[case], correct=False, detail=finding.detail)}


def _round(us: float) -> float:
    """Five digits: more than a clock is good for."""
    return float(f"{us:.5g}")
