"""Compile-only evaluation: what a compiler makes of every kernel that a candidate launches, for a device that need not be here."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from typing import Any

from ..languages import LANGUAGES
from ..languages.triton import LOW_OCCUPANCY
from ..targets import ARCHITECTURES, Binary, Facts
from ..types import CodecError, Evaluation, EvaluationRequest, IsolationLevel, Signal, StageReport, Status, Task, from_json
from ..workers import buffers
from ..workers.capture import Captured
from .builds import BuildService
from .failures import Failure, compile_failure
from .locks import DeviceLock
from .machine import Machine
from .opening import OpenTask, Tell
from .places import Place
from .processes import CancelToken, Interfered, Worker
from .run import LOAD_SECONDS, Run, prepare, start_worker

COMPILE_SECONDS = 180.0  # for one case: host code, and every specialization and configuration that it launches
RESULT_BYTES = 32 << 20
LISTINGS_CHARS = 600_000  # of all listings of an evaluation together
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
    language = LANGUAGES[request.candidate.language]
    builds = BuildService(machine.fork_server, machine.rules(level), machine.scratch, machine.cache, language, COMPILE_SECONDS)
    builds.start(cancel)
    run = Run(machine, place, task, facts, request, level, language, builds, tell, cancel, DeviceLock(place.environment.device))
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
    report = StageReport("build", failure is None, seconds, failure.message if failure else "", failure.log if failure else "", data)
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
    return _facts(run, _merged(kernels), left_out)


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


def _merged(kernels: list[Captured]) -> list[Captured]:
    """Specializations that became the same code are one kernel."""
    found: dict[str, Captured] = {}
    for k in kernels:
        key = repr((k.name, k.num_warps, k.num_stages, k.num_ctas, k.shared, k.constants, k.refused, k.texts))
        if not k.texts or key not in found:
            found[key if k.texts else f"{key}{len(found)}"] = k
            continue
        known = found[key]
        found[key] = replace(
            known,
            launches=known.launches + k.launches,
            tuning=known.tuning and k.tuning,
            grid=k.grid if known.tuning and not k.tuning else known.grid,
            cases=tuple(dict.fromkeys((*known.cases, *k.cases))),
        )
    return list(found.values())


# ---- what it means -----------------------------------------------------------------------------------------------


def _facts(run: Run, kernels: list[Captured], left_out: int) -> dict[str, Any]:
    architecture = ARCHITECTURES[run.place.architecture]
    read = [
        architecture.read(Binary(max(1, k.num_warps), k.shared, k.tensor, k.texts, k.resources)) for k in kernels
    ]  # fmt: skip
    _refused(run, kernels)
    run.signals += _signals(run, kernels, read)
    labels = _labels(kernels)
    return {
        "architecture": run.place.architecture,
        "kernels": [_row(label, k, f) for label, k, f in zip(labels, kernels, read, strict=True)],
        "kernels_left_out": left_out,
        "static": _summary(kernels, read),
        "listings": _listings(labels, kernels),
    }


def _refused(run: Run, kernels: list[Captured]) -> None:
    """A kernel of which no specialization would be loaded, though host code went on."""
    for name in dict.fromkeys(k.name for k in kernels):
        family = [k for k in kernels if k.name == name]
        if all(k.refused for k in family):
            raise compile_failure(f"{name}: {family[0].refused}", "", run.language)


def _signals(run: Run, kernels: list[Captured], read: list[Facts]) -> list[Signal]:
    """Of each kernel its best configuration counts: which one runs is for a measurement on the device to say."""
    if not kernels:
        text = "forward launched no Triton kernel, so there was nothing to compile"
        return [] if run.request.policy.library_calls == "allow" else [Signal("policy.no_native_kernel", text)]
    spilled, low = [], []
    for name in dict.fromkeys(k.name for k in kernels):
        family = [(k, f) for k, f in zip(kernels, read, strict=True) if k.name == name and not k.refused]
        kernel, best = min(family, key=lambda pair: (pair[1].spilled, -pair[1].occupancy.fraction))
        if best.spilled:
            counts = ", ".join(f"{n} {v}" for n, v in {**best.spills, "stack bytes": best.stack_bytes}.items() if v)
            spilled.append(Signal("register_spill", f"{name} ({_configuration(kernel)}) spills: {counts}", _evidence(best)))
        if best.occupancy.fraction < LOW_OCCUPANCY:
            o = best.occupancy
            text = (
                f"{name} ({_configuration(kernel)}): {o.blocks} blocks of {kernel.num_warps} warps fit a multiprocessor, "
                f"{o.fraction:.0%} of its warps, limited by {o.limiter}"
            )
            if best.matrix:
                text += "; usual for a pipelined kernel on matrix units, a loss for one that waits for memory"
            low.append(Signal("low_occupancy", text, _evidence(best)))
    return [*spilled[:1], *low[:1]]


def _evidence(facts: Facts) -> dict[str, float]:
    values = {**facts.registers, **{f"spill_{k}": v for k, v in facts.spills.items()}, "stack_bytes": facts.stack_bytes}
    return {**{k: float(v) for k, v in values.items()}, "occupancy": facts.occupancy.fraction}


def _configuration(kernel: Captured) -> str:
    constants = [f"{k}={v}" for k, v in kernel.constants.items() if len(v) < 12][:6]
    return ", ".join([*constants, f"num_warps={kernel.num_warps}", f"num_stages={kernel.num_stages}"])


def _labels(kernels: list[Captured]) -> list[str]:
    """Unique names: of several specializations the second is "name#2"."""
    seen: dict[str, int] = {}
    labels = []
    for kernel in kernels:
        seen[kernel.name] = seen.get(kernel.name, 0) + 1
        labels.append(kernel.name if seen[kernel.name] == 1 else f"{kernel.name}#{seen[kernel.name]}")
    return labels


def _row(label: str, kernel: Captured, facts: Facts) -> dict[str, Any]:
    o = facts.occupancy
    return {
        "kernel": label,
        "configuration": _configuration(kernel),
        "signature": kernel.signature,
        "constants": kernel.constants,
        "cases": list(kernel.cases),
        "launches": kernel.launches,
        "autotuned_alternative": kernel.tuning,
        "grid": list(kernel.grid),
        "num_warps": kernel.num_warps,
        "num_stages": kernel.num_stages,
        "num_ctas": kernel.num_ctas,
        "registers": facts.registers,
        "spills": facts.spills,
        "stack_bytes": facts.stack_bytes,
        "shared_bytes": kernel.shared,
        "tensor_memory_columns": kernel.tensor,
        "occupancy": {
            "fraction": round(o.fraction, 4), "blocks": o.blocks, "warps": o.warps, "of": o.max_warps, "limiter": o.limiter,
            "blocks_by_resource": o.limits,
        },
        "instructions": facts.mix,
        "matrix_instructions": facts.matrix,
        "global_access_bits": facts.widths,
        "refused": kernel.refused,
    }  # fmt: skip


def _summary(kernels: list[Captured], read: list[Facts]) -> dict[str, float]:
    """Figures of the whole candidate: the worst of what would run (autotuned alternatives left aside)."""
    used = [(k, f) for k, f in zip(kernels, read, strict=True) if not k.tuning] or list(zip(kernels, read, strict=True))
    if not used:
        return {"kernels": 0.0}
    return {
        "kernels": float(len(kernels)),
        "registers": float(max((v for _, f in used for n, v in f.registers.items() if n != "sgpr"), default=0)),
        "spills": float(sum(sum(f.spills.values()) for _, f in used)),
        "shared_bytes": float(max(k.shared for k, _ in used)),
        "occupancy": min(f.occupancy.fraction for _, f in used),
        "matrix_instructions": float(sum(sum(f.matrix.values()) for _, f in used)),
        "instructions": float(sum(f.mix.get("total", 0) for _, f in used)),
    }


def _listings(labels: list[str], kernels: list[Captured]) -> dict[str, str]:
    """ "name/sass" -> text; those that run before those that were only tried, until the room is used up."""
    room, found = LISTINGS_CHARS, {}
    for label, kernel in sorted(zip(labels, kernels, strict=True), key=lambda pair: pair[1].tuning):
        for kind, text in kernel.texts.items():
            if len(text) <= room:
                found[f"{label}/{kind}"] = text
                room -= len(text)
    return found


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
            f"compiles for {run.place.target}: {static['kernels']:.0f} kernel(s), at most {static['registers']:.0f} registers, "
            f"{static['shared_bytes']:.0f} bytes of shared memory, occupancy {static['occupancy']:.0%}; nothing was run"
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
