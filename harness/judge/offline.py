"""Compile-only evaluation: what a compiler makes of every kernel that a candidate launches, for a device that need not be here."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from typing import Any

from ..targets import ARCHITECTURES
from ..types import CodecError, Evaluation, EvaluationRequest, IsolationLevel, Signal, StageReport, Status, Task, from_json
from ..workers import buffers
from ..workers.capture import Captured
from . import compiled
from .failures import Failure, compile_failure
from .machine import Machine
from .opening import OpenTask, Tell
from .places import Place
from .processes import CancelToken, Interfered, Worker
from .run import LOAD_SECONDS, Run, begin, prepare, start_worker

COMPILE_SECONDS = 180.0  # for one case: host code, and every specialization and configuration that it launches
RESULT_BYTES = 32 << 20
_DEATHS_OF_THE_COMPILER = ("crash.abort", "crash.segmentation_fault", "crash.illegal_instruction")


def evaluate(
    machine: Machine,
    place: Place,
    task: OpenTask,
    facts: Task,
    request: EvaluationRequest,
    level: IsolationLevel,
    tell: Tell,
    cancel: CancelToken | None,
) -> Evaluation:
    """The stage `build` alone. Always an Evaluation about the candidate; trouble of the evaluator itself is raised."""
    started = time.monotonic()
    run = begin(machine, place, task, facts, request, level, tell, cancel, build_seconds=COMPILE_SECONDS)
    failure: Failure | None = None
    data: dict[str, Any] = {}
    try:
        data = _build(run)
    except Failure as found:
        failure = _blame_the_compiler(run, found)
    finally:
        if run.loaded is not None:
            run.loaded.close()
    seconds = time.monotonic() - started
    report = StageReport(
        "build", failure is None, seconds, failure.message if failure else "", failure.log if failure else "", data
    )
    return _conclude(run, report, failure, seconds)


def _build(run: Run) -> dict[str, Any]:
    run.tell("build", f"compiling for {run.place.target}", 0.05)
    refused = run.language.police(run.request.candidate.source)
    if refused is not None:
        raise Failure("rejected", refused.message, (refused,))
    worker = run.loaded = start_worker(run)
    for number, case in enumerate(run.cases):
        run.tell("build", f"case {case.name}", 0.1 + 0.8 * number / len(run.cases))
        _capture(run, worker, case.name)
    kernels, left_out = _collect(run, worker)
    return _facts(run, kernels, left_out)


def _capture(run: Run, worker: Worker, name: str) -> None:
    """Run the case's forward once, with inputs like any others."""
    drawer, pool = run.task.drawer, run.task.described(name)
    drawer.state(pool, 0)
    prepare(run, worker, pool, 1)
    held = drawer.sample(pool)
    try:
        where = f"case {name}: forward, compiled for {run.place.target}"
        run.guard(
            where,
            worker,
            lambda: worker.ask("capture", [held.inputs], seconds=COMPILE_SECONDS, key=name, layout=held.layout),
        )
    finally:
        held.close()
    run.guard(f"case {name}", worker, lambda: worker.ask("drop", seconds=LOAD_SECONDS, key=name))


def _collect(run: Run, worker: Worker) -> tuple[list[Captured], int]:
    fd = buffers.create("kernels", RESULT_BYTES)
    buffers.seal(fd, writable=True)
    try:
        reply = run.guard("collecting", worker, lambda: worker.ask("collect", [fd], seconds=COMPILE_SECONDS))
        size, left_out = reply.values[:2]
        return run.guard("collecting", worker, lambda: _decode(os.pread(fd, max(0, min(size, RESULT_BYTES)), 0))), left_out
    finally:
        os.close(fd)


def _decode(data: bytes) -> list[Captured]:
    """Untrusted: it comes from the candidate's process. Raises Interfered."""
    import json

    try:
        found = json.loads(data)
        return [from_json(Captured, entry) for entry in found]
    except (ValueError, TypeError, RecursionError, CodecError) as error:
        raise Interfered(f"what it says it compiled cannot be read: {str(error)[:200]}") from error


def _facts(run: Run, kernels: list[Captured], left_out: int) -> dict[str, Any]:
    if (kernel := compiled.unloadable(kernels)) is not None:
        raise compile_failure(f"{kernel.name}: {kernel.refused}", "", run.language)
    data, signals = compiled.describe(kernels, ARCHITECTURES[run.place.architecture])
    run.signals += signals
    if not kernels and run.request.policy.library_calls != "allow":
        text = "forward launched no Triton kernel, so there was nothing to compile"
        run.signals.append(Signal("policy.no_native_kernel", text))
    return {"architecture": run.place.architecture, "kernels_left_out": left_out, **data}


def _blame_the_compiler(run: Run, failure: Failure) -> Failure:
    """No kernel runs in this process: where native code dies, it is the compiler that gave up on the kernel's text."""
    if failure.status != "crashed" or failure.signals[0].name not in _DEATHS_OF_THE_COMPILER:
        return failure
    said = compile_failure(failure.message, failure.log, run.language)
    text = f"Triton's compiler itself died ({failure.message})"
    return replace(said, message=text, signals=tuple(replace(s, message=text) for s in said.signals))


def _conclude(run: Run, report: StageReport, failure: Failure | None, seconds: float) -> Evaluation:
    review = [s for s in run.signals if s.name.startswith("policy.")]
    status: Status
    if failure is not None:
        status, message, value = failure.status, failure.message, 0.0
        signals = (*failure.signals, *run.signals)
    elif review:
        status, message, value, signals = "flagged", review[0].message, 0.0, tuple(run.signals)
    else:
        static = report.data["static"]
        message = (
            "it loads; forward launched no Triton kernel"
            if not static["kernels"]
            else (
                f"compiles for {run.place.target}: {static['kernels']:.0f} kernel(s), at most {static['registers']:.0f} registers, "
                f"{static['shared_bytes']:.0f} bytes of shared memory, occupancy {static['occupancy']:.0%}; nothing was run"
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
        until=run.request.until,
        seconds=seconds,
    )
