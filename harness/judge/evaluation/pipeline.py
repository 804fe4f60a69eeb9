"""One evaluation: build -> verify -> time -> profile -> diagnose, stopping at the first failure."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ...targets import ARCHITECTURES
from ...types import (
    STAGES,
    Case,
    CaseResult,
    Evaluation,
    Signal,
    StageReport,
    Status,
    Target,
    eligible,
    fitness,
)
from ..attribution import compiled_kernels, launched_kernels, loops, own_work
from ..failures import Failure
from ..figures import statistics
from ..run import Run, prestart, start_worker
from ..timing import causes
from ..timing.measuring import time_candidate
from . import diagnosis
from .checking import verify


def evaluate(run: Run) -> Evaluation:
    """Always an Evaluation about the candidate; trouble of the evaluator itself is raised."""
    started = time.monotonic()
    failure: Failure | None = None
    steps = (
        (build, verify, time_candidate, _profile, _diagnose)
        if run.place.mode == "execute"
        else (build, verify)
    )
    try:
        for stage, step in zip(
            STAGES[: STAGES.index(run.request.through) + 1], steps, strict=False
        ):
            begun = time.monotonic()
            if stage == run.request.through == "verify":  # nothing is timed after it
                prestart(run)
            try:
                data = _done(run, stage, step)
                run.reports.append(StageReport(stage, True, time.monotonic() - begun, data=data))
            except Failure as found:
                failure = found
                run.reports.append(
                    StageReport(stage, False, time.monotonic() - begun, found.message, found.log)
                )
                break
        prestart(run)
        if run.reports[-1].stage not in ("profile", "diagnose"):
            run.reports[0] = replace(run.reports[0], data={**run.reports[0].data, **_loops(run)})
        if run.loaded is not None and failure is None:
            run.machine.reaper.add(run.loaded)
            run.loaded = None
    finally:
        if run.loaded is not None:
            run.loaded.close()
        if run.compiled is not None:
            os.close(run.compiled)
        run.builds.close()
    return conclude(run, failure, time.monotonic() - started)


def _done(run: Run, stage: str, step: Callable[[Run], dict[str, Any]]) -> dict[str, Any]:
    """What a stage found. Raises Failure, also where the candidate left no memory to judge it."""
    try:
        return step(run)
    except Failure:
        raise
    except Exception as error:
        worker = run.loaded
        failure = worker and run.starved(f"stage {stage}", worker, error)
        if not failure:
            raise
        raise failure from error


def build(run: Run) -> dict[str, Any]:
    """Text checks, then a confined worker loads the candidate, which builds its native code."""
    run.tell("build", "compiling", 0.05)
    refused = run.language.police(run.request.candidate.source)
    if refused is not None:
        raise Failure("invalid", refused.message, (refused,))
    run.loaded = start_worker(run, poison=True)
    return {
        "builds": [
            {"cached": b.cached, "seconds": b.seconds, "flags": list(b.flags)}
            for b in run.builds.records
        ]
    }


def _profile(run: Run) -> dict[str, Any]:
    """Who did the work, static facts of what was built, and the counts taken while timing."""
    run.tell("profile", "who does the work", 0.95)
    own_work.examine(run)
    architecture = ARCHITECTURES.get(run.machine.architecture_of(Target.parse(run.place.target)))
    kernels: dict[str, Any] = _loops(run)
    if run.kernels and architecture is not None:
        kernels, run.static = compiled_kernels.describe(
            launched_kernels.joined(run.kernels, run.builds.records, architecture), architecture
        )
    run.static += run.language.explain(kernels.get("static", {}))
    return {
        **kernels,
        "page_faults": {
            n: statistics.median(t.all("faults")) for n, t in run.times.items() if t.blocks
        },
        "involuntary_switches": {
            n: sum(b.switches for b in t.blocks) for n, t in run.times.items()
        },
    }


def _loops(run: Run) -> dict[str, Any]:
    """The inside of what load_cpp built; {} in a language whose kernels run elsewhere, since host
    code does not describe them."""
    return loops.describe(run.builds.records, run.called) if run.language.on_host else {}


def _diagnose(run: Run) -> dict[str, Any]:
    measured = [
        diagnosis.Measured(
            case, run.results[case.name], run.task.pools[case.name].working_set, _noise(run, case)
        )
        for case in run.cases
        if case.name in run.results and not case.held_out
    ]
    briefly = any(s.name == "timed_briefly" for s in run.signals)
    run.signals += diagnosis.diagnose(
        measured, run.machine.ceilings_of(run.task.family), run.static, briefly=briefly
    )
    return {}


def _noise(run: Run, case: Case) -> str:
    times, baseline = run.times.get(case.name), run.results[case.name].baseline
    return str(causes.explain(times, baseline)) if times is not None and baseline else ""


def conclude(run: Run, failure: Failure | None, seconds: float) -> Evaluation:
    """What was found out, as a value."""
    request, environment = run.request, replace(run.place.environment, isolation=run.level)
    cases = tuple(run.results[c.name] for c in run.cases if c.name in run.results)
    review = [s for s in run.signals if s.kind == "review"]
    timed = any(c.speedup is not None for c in cases)
    status: Status
    value: float | None
    signals: tuple[Signal, ...]
    if failure is not None:
        status, message, value, good = failure.status, failure.message, 0.0, False
        signals = (*failure.signals, *run.signals)
    elif run.ablating:
        wrong = [c.name for c in cases if not c.correct]
        status, value, good = "incorrect" if wrong else "correct", None, False
        message = _of_ablation(cases, wrong)
        signals = tuple(run.signals)
    else:
        status = "needs_review" if review else "correct"
        value = (0.0 if review else fitness(cases)) if timed or review else None
        good = not review and timed and eligible(cases)
        message = _message(status, cases, value, review, run.place.note)
        signals = tuple(run.signals)
    return Evaluation(
        candidate=request.candidate.digest,
        language=request.candidate.language,
        task=run.facts.digest,
        target=run.place.target,
        purpose=request.purpose,
        status=status,
        message=message,
        policy=str(request.policy),
        environment=environment,
        signals=tuple({s.name: s for s in reversed(signals)}.values())[::-1],
        fitness=value,
        eligible=good,
        cases=cases,
        stages=tuple(run.reports),
        through=request.through,
        seconds=seconds,
        device_seconds=run.lock.held_s,
    )


def _of_ablation(cases: tuple[CaseResult, ...], wrong: list[str]) -> str:
    why = f"wrong in {', '.join(wrong)}" if wrong else "right, so it could be profiled"
    figures = ", ".join(
        f"{c.name} {c.latency_us:.4g} us" for c in cases if c.latency_us is not None
    )
    return f"an ablation, no result ({why}): {figures or 'nothing was timed'}"


def _message(
    status: str, cases: tuple[CaseResult, ...], value: float | None, review: list[Signal], note: str
) -> str:
    if status == "needs_review":
        return f"right, but a person should look: {review[0].message}"
    if not cases:
        return f"it builds; nothing was run{f' ({note})' if note else ''}"
    right = f"right in all {len(cases)} cases" if len(cases) > 1 else "right in its only case"
    if value is None:
        return f"{right}; not timed{f' ({note})' if note else ''}"
    parts = ", ".join(
        f"{c.name} {c.speedup:.2f}x {c.verdict}" for c in cases if c.speedup is not None
    )
    return f"{right}; F = {value:.3f} ({parts})"
