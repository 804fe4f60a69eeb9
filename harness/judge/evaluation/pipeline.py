"""One evaluation: build -> verify -> time -> profile -> diagnose, stopping at the first failure."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace

from ...types import (
    STAGES,
    CaseResult,
    Evaluation,
    Signal,
    Status,
    eligible,
    fitness,
)
from ..candidate_workers import prestart, start_worker
from ..failures import Failure
from ..outcomes import Built, Timed, Verified
from ..stage_context import StageContext
from ..timing.measuring import time_candidate
from . import verdict_memory
from .profiling import diagnose, loops_of, profile
from .progress import Holdings, Progress
from .verification import verify


def evaluate(context: StageContext) -> Evaluation:
    """Evaluate a candidate. Returns an Evaluation in every case; errors of the evaluator itself are
    raised."""
    started = time.monotonic()
    holdings = Holdings(context)
    try:
        progress, called = _stages(context, holdings)
        prestart(context)
        if progress.reports[-1].stage not in ("profile", "diagnose"):
            progress = progress.with_built(loops_of(context, called))
        if progress.failure is None:
            holdings.let_go()
    finally:
        holdings.close()
    return conclude(context, progress, time.monotonic() - started)


def _stages(
    context: StageContext, holdings: Holdings
) -> tuple[Progress, Mapping[str, Mapping[str, int]]]:
    """Run the requested stages, as far as this place allows them. Returns the progress, and the C++
    functions that were called."""
    stages = STAGES[: STAGES.index(context.request.through) + 1]
    if context.place.mode != "execute":
        stages = stages[: STAGES.index("time")]

    progress, built = Progress().stage("build", lambda: build(context))
    holdings.hold(built.worker)
    if progress.failure or "verify" not in stages:
        return progress, {}

    progress, verified = progress.stage("verify", lambda: _verify(context, built))
    if progress.failure or "time" not in stages:
        return progress, verified.called

    progress, timed = progress.stage("time", lambda: _time(context, verified, holdings))
    if progress.failure or "profile" not in stages:
        return progress, verified.called

    later = holdings.hand_on()
    progress, profiled = progress.stage("profile", lambda: profile(later, verified, timed))
    if progress.failure or "diagnose" not in stages:
        return progress, verified.called

    progress, _ = progress.stage("diagnose", lambda: diagnose(later, timed, profiled))
    return progress, verified.called


def build(context: StageContext) -> Built:
    """Check the text, then load the candidate in a confined worker, which builds its native
    code."""
    context.tell("build", "compiling", 0.05)
    try:
        refuse_text(context)
        worker = start_worker(context, poison=True)
    except Failure as failure:
        return Built(failure=failure)
    records = [
        {"cached": b.cached, "seconds": b.seconds, "flags": list(b.flags)}
        for b in context.builds.records
    ]
    return Built({"builds": records}, worker=worker)


def refuse_text(context: StageContext) -> None:
    """Raise Failure if the candidate's text breaks the language's rules."""
    refused = context.language.police(context.request.candidate.source)
    if refused is not None:
        raise Failure("invalid", refused.message, (refused,))


def _verify(context: StageContext, built: Built) -> Verified:
    if context.request.through == "verify":  # nothing is timed after it
        prestart(context)
    verified = verify(context, built)
    verdict_memory.note(context, verified)
    return verified


def _time(context: StageContext, verified: Verified, holdings: Holdings) -> Timed:
    try:
        later = holdings.hand_on()
    except Failure as failure:
        return Timed(failure=failure)
    return time_candidate(later, verified)


def conclude(context: StageContext, progress: Progress, seconds: float) -> Evaluation:
    """Turn the findings into an Evaluation."""
    request, failure, signals = context.request, progress.failure, progress.signals
    environment = replace(context.place.environment, isolation=context.level)
    results = progress.results
    cases = tuple(results[c.name] for c in context.cases if c.name in results)
    review = [s for s in signals if s.kind == "review"]
    timed = any(c.speedup is not None for c in cases)
    status: Status
    value: float | None
    if failure is not None:
        status, message, value, good = failure.status, failure.message, 0.0, False
        signals = (*failure.signals, *signals)
    elif context.ablating:
        wrong = [c.name for c in cases if not c.correct]
        status, value, good = "incorrect" if wrong else "correct", None, False
        message = _of_ablation(cases, wrong)
    else:
        status = "needs_review" if review else "correct"
        value = (0.0 if review else fitness(cases)) if timed or review else None
        good = not review and timed and eligible(cases)
        message = _message(status, cases, value, review, context.place.note)
    return Evaluation(
        candidate=request.candidate.digest,
        language=request.candidate.language,
        task=context.facts.digest,
        target=context.place.target,
        purpose=request.purpose,
        status=status,
        message=message,
        policy=str(request.policy),
        environment=environment,
        signals=tuple({s.name: s for s in reversed(signals)}.values())[::-1],
        fitness=value,
        eligible=good,
        cases=cases,
        stages=progress.reports,
        through=request.through,
        seconds=seconds,
        device_seconds=context.lock.held_s,
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
