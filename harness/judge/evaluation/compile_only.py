"""Compile-only evaluation: compiles every kernel that a candidate launches, for a device that the
machine need not have."""

from __future__ import annotations

import time
from dataclasses import replace

from ...targets import ARCHITECTURES
from ...types import Evaluation, Signal, Status
from ...wire.launches import Captured
from ..attribution import compiled_kernels, launched_kernels
from ..candidate_workers import LOAD_SECONDS, prepare, start_worker
from ..failures import Failure, compile_failure
from ..outcomes import Built
from ..processes.worker import Worker
from ..stage_context import COMPILE_SECONDS, StageContext
from .pipeline import refuse_text
from .progress import Progress

_DEATHS_OF_THE_COMPILER = ("crash.abort", "crash.segmentation_fault", "crash.illegal_instruction")


def evaluate(context: StageContext) -> Evaluation:
    """Run the stage `build` alone. Returns an Evaluation in every case; errors of the evaluator
    itself are raised."""
    started = time.monotonic()
    try:
        progress, _ = Progress().stage("build", lambda: _build(context))
    finally:
        context.builds.close()
    return _conclude(context, progress, time.monotonic() - started)


def _build(context: StageContext) -> Built:
    context.tell("build", f"compiling for {context.place.target}", 0.05)
    try:
        refuse_text(context)
        worker = start_worker(context)
        try:
            kernels, left_out = _compile(context, worker)
        finally:
            worker.close()
        return _facts(context, kernels, left_out)
    except Failure as failure:
        return Built(failure=_blame_the_compiler(context, failure))


def _compile(context: StageContext, worker: Worker) -> tuple[list[Captured], int]:
    """Return every kernel that the cases launch, and the number left out. Raises Failure."""
    for number, case in enumerate(context.cases):
        context.tell("build", f"case {case.name}", 0.1 + 0.8 * number / len(context.cases))
        _capture(context, worker, case.name)
    kernels, left_out = launched_kernels.collect(context, worker, COMPILE_SECONDS)
    if context.language.built_as_text:
        architecture = ARCHITECTURES[context.place.architecture]
        kernels = launched_kernels.join_listings(kernels, context.builds.records, architecture)
    return kernels, left_out


def _capture(context: StageContext, worker: Worker, name: str) -> None:
    """Run the case's forward once on ordinary inputs."""
    drawer, pool = context.task.drawer, context.task.describe(name)
    drawer.set_state(pool, 0)
    prepare(context, worker, pool, 1)
    input_set = drawer.sample(pool)
    where = f"case {name}: forward, compiled for {context.place.target}"
    context.guard(
        where,
        worker,
        lambda: worker.ask(
            "capture",
            worker.private_copies(input_set.file.fd),
            seconds=COMPILE_SECONDS,
            key=name,
            layout=input_set.layout,
        ),
    )
    context.guard(
        f"case {name}", worker, lambda: worker.ask("drop", seconds=LOAD_SECONDS, key=name)
    )


def _facts(context: StageContext, kernels: list[Captured], left_out: int) -> Built:
    """Raises Failure."""
    if (kernel := compiled_kernels.unloadable(kernels)) is not None:
        raise compile_failure(f"{kernel.name}: {kernel.refused}", "", context.language)
    architecture = context.place.architecture
    data, signals = compiled_kernels.describe(kernels, ARCHITECTURES[architecture])
    if not kernels and context.request.policy.library_calls != "allow":
        text = "forward launched no kernel of its own"
        signals.append(Signal("policy.no_native_kernel", text))
    return Built({"architecture": architecture, "kernels_left_out": left_out, **data}, signals)


def _blame_the_compiler(context: StageContext, failure: Failure) -> Failure:
    """Turn a crash into a compiler error: no kernel runs in Triton's process, so if native code
    crashes there, the compiler failed on the kernel's text."""
    if (
        context.place.worker != "capture"
        or failure.status != "crashed"
        or failure.signals[0].name not in _DEATHS_OF_THE_COMPILER
    ):
        return failure
    explanation = compile_failure(failure.message, failure.log, context.language)
    text = f"Triton's compiler itself crashed ({failure.message})"
    return replace(
        explanation,
        message=text,
        signals=tuple(replace(s, message=text) for s in explanation.signals),
    )


def _conclude(context: StageContext, progress: Progress, seconds: float) -> Evaluation:
    failure, signals = progress.failure, progress.signals
    review = [s for s in signals if s.kind == "review"]
    status: Status
    if failure is not None:
        status, message, value = failure.status, failure.message, 0.0
        signals = (*failure.signals, *signals)
    elif review:
        status, message, value = "needs_review", review[0].message, 0.0
    else:
        static = progress.reports[0].data["static"]
        message = (
            "it loads; forward launched no kernel of its own"
            if not static["kernels"]
            else (
                f"compiles for {context.place.target}: {static['kernels']:.0f} kernel(s), at most "
                f"{static['registers']:.0f} registers, {static['shared_bytes']:.0f} bytes of "
                f"shared memory, occupancy {static['occupancy']:.0%}; nothing was run"
            )
        )
        status, value = "correct", None
    return Evaluation(
        candidate=context.request.candidate.digest,
        language=context.request.candidate.language,
        task=context.facts.digest,
        target=context.place.target,
        purpose=context.request.purpose,
        status=status,
        message=message,
        policy=str(context.request.policy),
        environment=replace(context.place.environment, isolation=context.level),
        signals=tuple({s.name: s for s in reversed(signals)}.values())[::-1],
        fitness=value,
        stages=progress.reports,
        through=context.request.through,
        seconds=seconds,
    )
