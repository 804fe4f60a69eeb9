"""Compile-only evaluation: what a compiler makes of every kernel that a candidate launches, for a
device that need not be here."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

from ...targets import ARCHITECTURES
from ...types import Evaluation, Signal, StageReport, Status
from ...wire.launches import Captured
from ..attribution import compiled_kernels, launched_kernels
from ..failures import Failure, compile_failure
from ..processes.worker import Worker
from ..run import COMPILE_SECONDS, LOAD_SECONDS, Run, prepare, start_worker

_DEATHS_OF_THE_COMPILER = ("crash.abort", "crash.segmentation_fault", "crash.illegal_instruction")


def evaluate(run: Run) -> Evaluation:
    """The stage `build` alone. Always an Evaluation about the candidate; trouble of the evaluator
    itself is raised."""
    started = time.monotonic()
    failure: Failure | None = None
    data: dict[str, Any] = {}
    try:
        data = _build(run)
    except Failure as found:
        failure = _blame_the_compiler(run, found)
    finally:
        if run.loaded is not None:
            run.loaded.close()
        run.builds.close()
    seconds = time.monotonic() - started
    report = StageReport(
        "build",
        failure is None,
        seconds,
        failure.message if failure else "",
        failure.log if failure else "",
        data,
    )
    return _conclude(run, report, failure, seconds)


def _build(run: Run) -> dict[str, Any]:
    run.tell("build", f"compiling for {run.place.target}", 0.05)
    refused = run.language.police(run.request.candidate.source)
    if refused is not None:
        raise Failure("invalid", refused.message, (refused,))
    worker = run.loaded = start_worker(run)
    for number, case in enumerate(run.cases):
        run.tell("build", f"case {case.name}", 0.1 + 0.8 * number / len(run.cases))
        _capture(run, worker, case.name)
    kernels, left_out = launched_kernels.collect(run, worker, COMPILE_SECONDS)
    if run.language.built_as_text:
        kernels = launched_kernels.joined(
            kernels, run.builds.records, ARCHITECTURES[run.place.architecture]
        )
    return _facts(run, kernels, left_out)


def _capture(run: Run, worker: Worker, name: str) -> None:
    """Run the case's forward once, with inputs like any others."""
    drawer, pool = run.task.drawer, run.task.described(name)
    drawer.state(pool, 0)
    prepare(run, worker, pool, 1)
    held = drawer.sample(pool)
    where = f"case {name}: forward, compiled for {run.place.target}"
    run.guard(
        where,
        worker,
        lambda: worker.ask(
            "capture",
            worker.own(held.file.fd),
            seconds=COMPILE_SECONDS,
            key=name,
            layout=held.layout,
        ),
    )
    run.guard(f"case {name}", worker, lambda: worker.ask("drop", seconds=LOAD_SECONDS, key=name))


def _facts(run: Run, kernels: list[Captured], left_out: int) -> dict[str, Any]:
    if (kernel := compiled_kernels.unloadable(kernels)) is not None:
        raise compile_failure(f"{kernel.name}: {kernel.refused}", "", run.language)
    data, signals = compiled_kernels.describe(kernels, ARCHITECTURES[run.place.architecture])
    run.signals += signals
    if not kernels and run.request.policy.library_calls != "allow":
        text = "forward launched no kernel of its own"
        run.signals.append(Signal("policy.no_native_kernel", text))
    return {"architecture": run.place.architecture, "kernels_left_out": left_out, **data}


def _blame_the_compiler(run: Run, failure: Failure) -> Failure:
    """No kernel runs in Triton's process: where native code dies, it is the compiler that gave up
    on the kernel's text."""
    if (
        run.place.worker != "capture"
        or failure.status != "crashed"
        or failure.signals[0].name not in _DEATHS_OF_THE_COMPILER
    ):
        return failure
    said = compile_failure(failure.message, failure.log, run.language)
    text = f"Triton's compiler itself died ({failure.message})"
    return replace(
        said, message=text, signals=tuple(replace(s, message=text) for s in said.signals)
    )


def _conclude(run: Run, report: StageReport, failure: Failure | None, seconds: float) -> Evaluation:
    review = [s for s in run.signals if s.kind == "review"]
    status: Status
    if failure is not None:
        status, message, value = failure.status, failure.message, 0.0
        signals = (*failure.signals, *run.signals)
    elif review:
        status, message, value, signals = "needs_review", review[0].message, 0.0, tuple(run.signals)
    else:
        static = report.data["static"]
        message = (
            "it loads; forward launched no kernel of its own"
            if not static["kernels"]
            else (
                f"compiles for {run.place.target}: {static['kernels']:.0f} kernel(s), at most "
                f"{static['registers']:.0f} registers, {static['shared_bytes']:.0f} bytes of "
                f"shared memory, occupancy {static['occupancy']:.0%}; nothing was run"
            )
        )
        status, value, signals = "correct", None, tuple(run.signals)
    return Evaluation(
        candidate=run.request.candidate.digest,
        language=run.request.candidate.language,
        task=run.facts.digest,
        target=run.place.target,
        purpose=run.request.purpose,
        status=status,
        message=message,
        policy=str(run.request.policy),
        environment=replace(run.place.environment, isolation=run.level),
        signals=tuple({s.name: s for s in reversed(signals)}.values())[::-1],
        fitness=value,
        stages=(report,),
        through=run.request.through,
        seconds=seconds,
    )
