"""One evaluation: build -> verify -> time -> profile -> diagnose, stopping at the first failure."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from ..languages import LANGUAGES, Language
from ..types import (
    STAGES,
    Case,
    CaseResult,
    Evaluation,
    EvaluationRequest,
    IsolationLevel,
    Signal,
    StageReport,
    Status,
    Task,
    fitness,
    promotable,
)
from ..workers import buffers, operators
from . import bounds, bursts, diagnosis, naive, opening, oracle, statistics, timing
from .builds import BuildService
from .failures import Failure, explain
from .locks import DeviceLock
from .machine import Machine
from .opening import OpenTask, Tell
from .pool import CasePool, InputSet
from .processes import CancelToken, Interfered, Worker, WorkerDied, WorkerFailed, WorkerTimeout

T = TypeVar("T")
LOAD_SECONDS, BUILD_SECONDS = 30.0, 60.0
CALL_FLOOR_SECONDS, CALL_FACTOR = 10.0, 200.0  # a call may take 200 times the strongest baseline, and 10 s in any case


@dataclass
class Run:
    """The state of one evaluation."""

    machine: Machine
    task: OpenTask
    facts: Task
    request: EvaluationRequest
    level: IsolationLevel
    language: Language
    builds: BuildService
    tell: Tell
    cancel: CancelToken | None
    lock: DeviceLock
    reports: list[StageReport] = field(default_factory=list)
    signals: list[Signal] = field(default_factory=list)
    results: dict[str, CaseResult] = field(default_factory=dict)
    times: dict[str, timing.CaseTimes] = field(default_factory=dict)
    library: dict[str, int] = field(default_factory=dict)
    screened: dict[str, Case] = field(default_factory=dict)
    loaded: Worker | None = None

    @property
    def cases(self) -> list[Case]:
        confirming = self.request.purpose in ("confirm", "export")
        wanted = set(self.request.cases)
        return [c for c in self.facts.cases if (not wanted or c.name in wanted) and (confirming or not c.held_out)]

    def guard(self, where: str, worker: Worker, action: Callable[[], T]) -> T:
        """Whatever the worker does becomes a Failure."""
        try:
            return action()
        except (WorkerFailed, WorkerDied, WorkerTimeout, Interfered) as error:
            raise explain(error, where, worker.log(), worker.flooded, self.builds.records, self.language) from error


def evaluate(
    machine: Machine,
    task: OpenTask,
    facts: Task,
    request: EvaluationRequest,
    level: IsolationLevel,
    tell: Tell,
    cancel: CancelToken | None,
) -> Evaluation:
    """Always an Evaluation about the candidate; trouble of the evaluator itself is raised."""
    started = time.monotonic()
    language = LANGUAGES[request.candidate.language]
    builds = BuildService(machine.fork_server, machine.rules(level), machine.scratch, machine.cache, language, BUILD_SECONDS)
    builds.start(cancel)
    lock = DeviceLock(machine.environment.device)
    run = Run(machine, task, facts, request, level, language, builds, tell, cancel, lock)
    failure: Failure | None = None
    steps = (_build, _verify, _time, _profile, _diagnose)
    try:
        for stage, step in zip(STAGES[: STAGES.index(request.until) + 1], steps, strict=False):
            begun = time.monotonic()
            try:
                data = step(run)
                run.reports.append(StageReport(stage, True, time.monotonic() - begun, data=data))
            except Failure as found:
                failure = found
                run.reports.append(StageReport(stage, False, time.monotonic() - begun, found.message, found.log))
                break
    finally:
        if run.loaded is not None:
            run.loaded.close()
    return _conclude(run, failure, time.monotonic() - started)


# ---- stages --------------------------------------------------------------------------------------------------------


def _build(run: Run) -> dict[str, Any]:
    """Text checks, then a confined worker loads the candidate, which builds its native code."""
    run.tell("build", "compiling", 0.05)
    refused = run.language.police(run.request.candidate.source)
    if refused is not None:
        raise Failure("rejected", refused.message, (refused,))
    run.loaded = _start(run, poison=True)
    facts: dict[str, float] = {}
    for record in run.builds.records:
        for name, value in record.facts.items():
            facts[name] = facts.get(name, 0.0) + value
    return {
        "builds": [{"cached": b.cached, "seconds": b.seconds, "flags": list(b.flags)} for b in run.builds.records],
        "static": facts,
    }


def _start(run: Run, *, poison: bool = False) -> Worker:
    """A fresh confined worker with the candidate loaded, pinned, one thread."""
    worker = run.machine.fork_server.worker("candidate", run.machine.rules(run.level), run.machine.scratch)
    worker.cancel, worker.on_build = run.cancel, run.builds.handle
    source = buffers.from_bytes("candidate", run.request.candidate.source.encode())
    try:
        run.guard("loading", worker, lambda: worker.ask("load", [source], seconds=LOAD_SECONDS, poison=poison))
        cpu = run.machine.timing_cpus
        run.guard("loading", worker, lambda: worker.ask("threads", seconds=LOAD_SECONDS, count=1, cpus=cpu))
        return worker
    except BaseException:
        worker.close()
        raise
    finally:
        os.close(source)


def _prepare(run: Run, worker: Worker, pool: CasePool, count: int) -> bursts.Slots:
    """Construct the candidate's model for a case and give it the reference's parameters."""
    slots = bursts.Slots(count, pool.slot_bytes)

    def prepare() -> None:
        worker.ask(
            "case",
            [pool.init_fd, slots.fd],
            seconds=LOAD_SECONDS,
            key=pool.name,
            init=pool.describe["init"],
            outputs=pool.outputs,
            slots=count,
            slot_bytes=pool.slot_bytes,
            state=pool.describe["state"],
            seed=pool.seed,
            gradients=pool.gradients,
        )
        _set_state(worker, pool, 0)

    run.guard(f"case {pool.name}: construction", worker, prepare)
    return slots


def _set_state(worker: Worker, pool: CasePool, seed: int) -> None:
    if pool.describe["state"]:
        layout = pool.describe["state_layout"]
        worker.ask("state", [pool.states[seed]], seconds=LOAD_SECONDS, key=pool.name, layout=layout)


def _verify(run: Run) -> dict[str, Any]:
    worker = run.loaded
    assert worker is not None
    for number, case in enumerate(run.cases):
        run.tell("verify", f"case {case.name}", 0.15 + 0.25 * number / len(run.cases))
        pool = run.task.pool(case.name)
        slots = _prepare(run, worker, pool, bursts.CHECK_CALLS)
        run.results[case.name] = _check_case(run, case, pool, worker, slots)
        run.guard(f"case {case.name}", worker, lambda name=case.name: worker.ask("drop", seconds=LOAD_SECONDS, key=name))  # type: ignore[misc]
    _who_works(run)
    return {"families": {c.name: run.task.pools[c.name].families for c in run.cases}, "library": run.library}


def _check_case(run: Run, case: Case, pool: CasePool, worker: Worker, slots: bursts.Slots) -> CaseResult:
    """Every checking set: two at a time and the first again, so that held, stale and unstable outputs show."""
    seconds = _call_seconds(case, bursts.CHECK_CALLS)
    bitwise = "bitwise" in (run.facts.tolerance, run.request.policy.tolerance)
    findings: list[oracle.Finding] = []
    reproducible = True
    for state in dict.fromkeys(s for s, _ in pool.checking):
        sets = [held for s, held in pool.checking if s == state]
        where = f"case {case.name}" + (", after the parameters changed" if state else "")
        run.guard(where, worker, lambda s=state: _set_state(worker, pool, s))  # type: ignore[misc]
        for start in range(0, len(sets), 2):
            pair = sets[start : start + 2]
            order = [0, len(pair) - 1, 0]
            first = not findings
            result = run.guard(
                where,
                worker,
                lambda p=pair, o=order, r=first: bursts.run(worker, case.name, p, o, seconds, record=r),  # type: ignore[misc]
            )
            _count_library(run, result.data)
            outputs = [slots.tensors(pool.outputs, index) for index in range(bursts.CHECK_CALLS)]
            again = all(oracle.same_bits(a, b) for a, b in zip(outputs[0], outputs[2], strict=True))
            reproducible &= again
            judged = (0, 1) if len(pair) == 2 else (0,)
            for index in judged if again else (0, 1, 2):
                findings += _judge_call(run, case, pool, outputs[index], pair[order[index]], where, bitwise, repeated=index == 2)
    worst = max(findings, key=lambda f: f.error / max(f.limit, 1e-300))
    return CaseResult(
        name=case.name,
        weight=case.weight,
        protected=case.protected,
        held_out=case.held_out,
        correct=True,
        error=worst.error,
        framework_error=worst.framework_error,
        tolerance=worst.limit,
        bitwise_equal_to_eager=all(f.bitwise_equal for f in findings),
        bitwise_reproducible=reproducible,
    )


def _judge_call(
    run: Run, case: Case, pool: CasePool, outputs: list[Any], held: InputSet, where: str, bitwise: bool, repeated: bool
) -> list[oracle.Finding]:
    found = []
    for number, own in enumerate(outputs):
        finding = oracle.compare(
            own, held.expected[number], held.allowed[number], pool.reduction, held.framework[number], bitwise
        )
        if finding.signal is not None:
            name = finding.signal
            if where.endswith("changed") and name.startswith("wrong."):
                name = "wrong.stale_parameters"
            elif repeated and name == "wrong.values":
                name = "wrong.race"
            text = f"{where}, {held.family} inputs, output {number}: {finding.detail}"
            if finding.error:
                text += f" (error {finding.error:.2e}, allowed {finding.limit:.2e}, the framework's own {finding.framework_error:.2e})"
            run.results[case.name] = CaseResult(
                case.name, case.weight, case.protected, case.held_out, False,
                _finite(finding.error), finding.framework_error, finding.limit, finding.detail,
            )  # fmt: skip
            raise Failure("incorrect", text, (Signal(name, text),))
        found.append(finding)
    return found


def _time(run: Run) -> dict[str, Any]:
    """Fresh candidate processes, one after the other; each runs every case against its baselines."""
    if run.loaded is not None:
        run.loaded.close()
        run.loaded = None
    confirming = run.request.purpose in ("confirm", "export")
    rng = timing.fresh_rng()
    run.times = {c.name: timing.CaseTimes() for c in run.cases}
    for process in range(timing.PROCESSES):
        if confirming and process:
            run.task.restart()
        worker = _start(run)
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
    slots = _prepare(run, worker, pool, max(bursts.CHECK_CALLS, pool.calls))
    run.task.drawer.state(pool, 0)
    run.task.prepare(case.name, baselines)
    run.task.worker.ask("threads", seconds=60, count=1, cpus=run.machine.timing_cpus)
    try:
        timing_seconds = _call_seconds(case, pool.calls)
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
    compared = statistics.compare(times.pairs[best], "cpu", rng)
    latency = statistics.median([p[1] for process in times.pairs[best] for p in process])
    floor_us = bounds.impossible_us(case, run.machine.ceilings) if case.bytes_written else 0.0
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
        roofline=case.roofline_us / latency if case.roofline_us else None,
        pairs=compared.pairs,
        page_faults=statistics.median(times.faults),
        baseline_page_faults=statistics.median(times.baseline_faults),
        threads=1,
        allocation=run.machine.environment.allocation,
    )


def _profile(run: Run) -> dict[str, Any]:
    """Static facts of what was built, and the counts taken while timing: both cost nothing extra."""
    run.tell("profile", "reading counters", 0.95)
    return {
        "static": run.reports[0].data.get("static", {}),
        "page_faults": {n: statistics.median(t.faults) for n, t in run.times.items() if t.faults},
        "involuntary_switches": {n: t.switches for n, t in run.times.items()},
    }


def _diagnose(run: Run) -> dict[str, Any]:
    static = run.language.explain(run.reports[0].data.get("static", {}))
    measured = []
    for case in run.cases:
        if case.name in run.results and not case.held_out:
            pool = run.task.pools[case.name]
            working_set = (pool.input_bytes + pool.slot_bytes) * max(1, len(pool.timing))
            measured.append(diagnosis.Measured(case, run.results[case.name], working_set))
    run.signals += diagnosis.diagnose(measured, run.machine.ceilings, static)
    return {}


# ---- conclusions -----------------------------------------------------------------------------------------------------


def _count_library(run: Run, counted: Any) -> None:
    """Operators of the framework that computed something (the worker's own count, so it informs only)."""
    if isinstance(counted, dict):
        for name, entry in counted.items():
            if (
                isinstance(name, str)
                and isinstance(entry, list)
                and entry
                and isinstance(entry[0], int)
                and not operators.is_free(name)
            ):
                run.library[name] = run.library.get(name, 0) + entry[0]


def _who_works(run: Run) -> None:
    policy = run.request.policy.library_calls
    if policy == "allow":
        return
    if not any(b.ok for b in run.builds.records):
        text = "no native kernel was built: the candidate leaves the work to the framework"
        found = Signal("policy.no_native_kernel", text)
    elif run.library:
        listed = ", ".join(sorted(run.library)[:6])
        found = Signal("policy.library_calls", f"the framework computes a part: {listed}")
    else:
        return
    if policy == "reject":
        raise Failure("rejected", f"{found.message}; the session's policy does not allow it", (found,))
    run.signals.append(found)


def _conclude(run: Run, failure: Failure | None, seconds: float) -> Evaluation:
    request, environment = run.request, replace(run.machine.environment, isolation=run.level)
    cases = tuple(run.results[c.name] for c in run.cases if c.name in run.results)
    review = [s for s in run.signals if s.name.startswith(("policy.", "suspect."))]
    timed = any(c.speedup is not None for c in cases)
    status: Status
    value: float | None
    signals: tuple[Signal, ...]
    if failure is not None:
        status, message, value, good = failure.status, failure.message, 0.0, False
        signals = (*failure.signals, *run.signals)
    else:
        status = "flagged" if review else "correct"
        value = (0.0 if review else fitness(cases)) if timed or review else None
        good = not review and timed and promotable(cases)
        message = _message(status, cases, value, review)
        signals = tuple(run.signals)
    return Evaluation(
        candidate=request.candidate.digest,
        language=request.candidate.language,
        task=run.facts.digest,
        target="cpu",
        purpose=request.purpose,
        status=status,
        message=message,
        policy=str(request.policy),
        environment=environment,
        signals=tuple({s.name: s for s in reversed(signals)}.values())[::-1],
        fitness=value,
        promotable=good,
        cases=cases,
        stages=tuple(run.reports),
        until=request.until,
        seconds=seconds,
        device_s=run.lock.held_s,
    )


def _message(status: str, cases: tuple[CaseResult, ...], value: float | None, review: list[Signal]) -> str:
    if status == "flagged":
        return f"right, but a person should look: {review[0].message}"
    if value is None:
        return f"right in all {len(cases)} cases; not timed"
    parts = ", ".join(f"{c.name} {c.speedup:.2f}x {c.verdict}" for c in cases if c.speedup is not None)
    return f"right in all {len(cases)} cases; F = {value:.3f} ({parts})"


def _call_seconds(case: Case, calls: int) -> float:
    known = min(case.baselines_us.values(), default=0.0)
    return max(CALL_FLOOR_SECONDS, CALL_FACTOR * calls * known / 1e6)


def _finite(value: float) -> float | None:
    return value if value < float("inf") else None
