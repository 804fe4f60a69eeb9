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
from ..figures.block import Block
from ..figures.case_times import CaseTimes
from ..outcomes import Timed, Verified
from ..processes.worker import Worker
from ..stage_context import StageContext
from ..tasks.baseline_screening import Screening
from . import blocks, concluding, extra_figures, left_open, paired

# blocks measured again because something else used the device: in a confirmation, of one block
REPEATS, REPEATS_OF_ONE = 4, 2
SEARCH_REPEATS = 1  # in a search, whose winner is measured again anyway
MOST_PROCESSES = 36  # in a confirmation, for cases that the first processes leave inconclusive
PAUSE_S = 0.25  # before a block is measured again: the disturbance may pass


def time_candidate(context: StageContext, verified: Verified) -> Timed:
    """Time a candidate in fresh processes, one after another; each runs every case against its
    baselines. Blocks that the device's state makes doubtful are measured again in another fresh
    process, a limited number of times."""
    timing = _Timing(context, verified)
    try:
        timing.run()
    except Failure as failure:
        return timing.outcome(failure)
    return timing.outcome()


class _Timing:
    """The timing of one candidate, with its results so far."""

    def __init__(self, context: StageContext, verified: Verified) -> None:
        self._context, self._rng = context, paired.fresh_rng()
        self._screening = Screening(context.task, context.tell)
        self._results = dict(verified.results)
        self._signals: list[Signal] = []
        earlier = context.request.earlier.rounds
        self._times = {c.name: CaseTimes(earlier=earlier.get(c.name, {})) for c in context.cases}
        self._repeats = REPEATS if context.confirming else SEARCH_REPEATS
        self._worker: Worker | None = None  # the candidate's present process

    def run(self) -> None:
        """Time all cases. Raises Failure."""
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
        """Return the outcome as far as timing came."""
        if failure is None:
            return Timed(self._data(), self._signals, self._results, times=self._times)
        return Timed({}, self._signals, with_wrong(self._results, failure), failure, self._times)

    def _processes(self) -> None:
        """Run as many processes as needed."""
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
        """Run one fresh process on these cases. process: its number in the evaluation, from 0."""
        context = self._context
        if context.request.renews:
            # random, so that neither side is always the first on the device
            context.task.restart_baselines(at_once=self._rng.random() < 0.5)
        if context.task.family.SLOW_START:  # started before its candidate is loaded
            context.machine.reaper.wait()
            prestart_timed(context)
        blocks.draw(context, self._screening.of(cases[0]))
        try:
            self._start()
            context.machine.reaper.wait()  # also for compilers of this process
            for number, case in enumerate(cases):
                fraction = 0.4 + 0.5 * min(1.0, (process + number / len(cases)) / paired.PROCESSES)
                text = f"process {process + 1} of at least {paired.PROCESSES}, case {case.name}"
                context.tell("time", text, fraction)
                screened, times = self._screening.of(case), self._times[case.name]
                baselines = (
                    [times.strongest]
                    if process >= paired.PROCESSES
                    else paired.contenders(screened, every=context.confirming)
                )
                # in a search, the first process suffices for the figures shown beside the verdict
                hot = context.confirming or not process
                times.blocks.append(self._block(screened, baselines, fraction, hot=hot))
                if context.confirming and context.task.crowds_memory:
                    context.task.release(case.name)
        finally:
            self._end()

    def _block(self, case: Case, baselines: list[str], fraction: float, *, hot: bool) -> Block:
        """Measure a valid block, again if something else used the device."""
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
        # nothing of an earlier process, not even pending messages, may be left
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
        """Return why a search can stop timing a candidate whose first processes show it far behind
        the best so far; "" if it must continue. The threshold is closer to the best with more
        processes, since their figure is more reliable."""
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
        """Return the cases whose interval is not decisive yet, without held-out ones, which do not
        count for speed."""
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
        baseline = self._times[case].strongest
        return concluding.compare(self._context, self._times, case, baseline, self._rng)

    def _data(self) -> dict[str, Any]:
        """Return the data of the report."""
        times = self._times
        return {
            "processes": {n: len(t.blocks) for n, t in times.items()},
            "clocks_us": {n: (t.claimed_ns / 1e3, t.seen_ns / 1e3) for n, t in times.items()},
            "said_us": {
                n: statistics.median(process_ns) / 1e3
                for n, t in times.items()
                if (process_ns := t.all("process_clock_ns"))
            },
            "nothing_us": {n: t.nothing_us for n, t in times.items()},
            "ahead": {n: t.unmeasured_factor(t.strongest) for n, t in times.items()},
            "alone": {n: t.alone_factor(t.strongest) for n, t in times.items()},
            "host_us": {n: _host_us(t, "host_us") for n, t in times.items()},
            "alone_host_us": {n: _host_us(t, "alone_host_us") for n, t in times.items()},
            "blocks": {n: blocks.report(t) for n, t in times.items()},
            **({} if self._context.confirming else {"samples": to_json(self._samples())}),
        }

    def _samples(self) -> Samples:
        """Return the samples for a later evaluation of the same key: the rounds of this one and the
        earlier ones that it joined."""
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
            name: {b: left_open.left_open_us(context, times, name, b) for b in by_baseline}
            for name, by_baseline in rounds.items()
        }
        contended = tuple(n for n in rounds if concluding.is_contended(context, times, n))
        baselines = concluding.baseline_processes(context, times)
        return Samples(rounds, baselines, open_us, contended)


def with_wrong(results: Mapping[str, CaseResult], failure: Failure) -> Mapping[str, CaseResult]:
    """Mark the case whose output was wrong while it was timed, if that is the failure."""
    if failure.wrong is None:
        return results
    case, finding = failure.wrong
    return {**results, case: replace(results[case], correct=False, detail=finding.detail)}


def _host_us(times: CaseTimes, figure: str) -> tuple[float, float]:
    """Return what the candidate and the strongest baseline take to queue a call on a device, by one
    of Block's figures."""
    own_us, usual_us = (times.median_of(figure, side) for side in ("", times.strongest))
    return own_us or 0.0, usual_us or 0.0


def _round(us: float) -> float:
    """Round to five digits, which is more than a clock's precision."""
    return float(f"{us:.5g}")
