"""Opens a task: starts its reference worker, learns its cases, refuses what cannot be judged, and
measures its baselines."""

from __future__ import annotations

import hashlib
from pathlib import Path

from ...targets import DeviceFamily, cpu
from ...types import Case, Task
from ...wire.task_lines import FORWARD
from ...workers import operators
from ..device.locks import DeviceLock
from ..device.machine import Machine
from ..errors import CancelToken, TaskRefusedError, WorkerFailed
from ..exchange import device_link, device_witness
from . import validation
from .baseline_screening import screen_baselines
from .open_task import OpenTask, Tell
from .task_workers import TASK_SECONDS, TaskText, TaskWorkers

# times that a task's parameters are drawn again before it is refused because of its outputs
MORE_PARAMETERS = 2


def open_task(
    machine: Machine,
    source: str,
    path: str,
    tell: Tell,
    cancel: CancelToken | None,
    *,
    family: DeviceFamily = cpu,
    timed: bool = True,
    reopened: bool = False,
    checked: bool = True,
    timed_later: bool = False,
) -> tuple[OpenTask, Task]:
    """Open a task. Raises TaskRefusedError, with the worker ended.

    timed: time baselines and ceilings. reopened: do not validate the task again. checked: False if
    nothing will be verified later, so that only shapes are learned. timed_later: baselines will be
    needed, whose compiler takes long to import.
    """
    text = TaskText.of(source, path)
    machine.expect_task(family, text.folder, compiles=timed or timed_later)
    workers = TaskWorkers(machine, family, text)
    tell("open", "reading the task", 0.0)
    try:
        worker, declaration = workers.start(cancel)
    except WorkerFailed as error:
        workers.close()
        raise TaskRefusedError(str(error)) from error
    except BaseException:
        workers.close()
        raise
    handle = OpenTask(machine, family, workers, worker, declaration, cancel)
    try:
        if family.OWN_MEMORY:
            share_memory(handle, cancel)
        task = _learn(handle, tell, timed, checked and not reopened)
        handle.finish_opening()
        return handle, task
    except BaseException as error:
        reason = workers.refusal(error, handle.ended_worker)
        handle.close()
        if reason:
            raise TaskRefusedError(reason) from error
        raise


def share_memory(handle: OpenTask, cancel: CancelToken | None) -> None:
    """Keep the task's sets on its device where the judge and its workers can share memory there.
    The witness is made now: when a judge opens its first task it has no candidate yet, and one that
    is stopped may have left work on the device."""
    reason = device_link.refusal(handle.worker)
    handle.shared = not reason
    if reason:
        handle.notes.append(
            "data pass through host memory, and the figures come from the candidate's own "
            f"clock: {reason}"
        )
        return
    if not device_witness.is_ready():
        with DeviceLock(handle.family.device_id()).hold(cancel):
            device_witness.prepare()


def _learn(handle: OpenTask, tell: Tell, timed: bool, validated: bool) -> Task:
    """Learn the facts of a task (cases, graph, operators); validate and time it if requested."""
    declared = handle.declaration["cases"]
    # all cases first, so that a later opening without validation finds the same neighbours
    for entry in declared:
        if not entry["held_out"]:
            tell("open", f"case {entry['name']}: shapes", 0.02)
            handle.describe(entry["name"])
    handle.workers.neighbours = handle.worker.data(
        handle.worker.ask("neighbours", seconds=TASK_SECONDS)
    )
    cases: list[Case] = []
    for number, entry in enumerate(declared):
        name = entry["name"]
        if entry["held_out"]:
            cases.append(Case(name, entry["weight"], False, True, entry["arguments"]))
            continue
        if validated:
            tell(
                "open",
                f"case {name}: inputs and high-precision results",
                0.05 + 0.35 * number / len(declared),
            )
        if validated and (reason := _problem(handle, name)):
            raise TaskRefusedError(f"{handle.text.lines.at(*FORWARD)}: case {name!r}: {reason}")
        cases.append(
            handle.describe_case(
                Case(name, entry["weight"], entry["protected"], False, entry["arguments"])
            )
        )
    first = next(handle.pools[c.name] for c in cases if not c.held_out)
    if any(not p.describe["doubled"] for p in handle.pools.values()):
        handle.notes.append(
            "the reference cannot run in float64; its own dtype serves as the reference"
        )
    for name, pool in handle.pools.items():
        if numbers := pool.sampled_alike:
            handle.notes.append(
                f"case {name!r}: output {numbers[0]} may be right within its tolerance for a "
                "kernel that reads half of the inputs, whatever they are, so none is called "
                "faster; have the task return it in float32, or by row"
            )
        if numbers := pool.hardly_read:
            handle.notes.append(
                f"case {name!r}: output {numbers[0]} hardly shows one of the inputs, or of the "
                "products computed from them: its effect is close to the tolerance, so none is "
                "called faster; have the task return the part that depends on it by itself (a "
                "step, say, not only what it is added to)"
            )
    graph, untraced = handle.drawer.graph(first)
    if untraced:
        handle.notes.append(
            f"its graph is not known ({untraced}); similar tasks are found by the operators that "
            "ran"
        )
    if timed:
        cases = [
            c if c.held_out else screen_baselines(handle, c, tell, 0.4 + 0.6 * i / len(cases))
            for i, c in enumerate(cases)
        ]
    names = handle.baselines
    used = (
        [n for n in names if any(n in s for s in handle.screening_us.values())] if timed else names
    )
    return Task(
        name=_name(handle.text.path, handle.text.source),
        digest=handle.digest,
        source=handle.text.source,
        path=handle.text.path,
        cases=tuple(cases),
        tolerance=handle.declaration["tolerance"],
        gradients=bool(handle.declaration["gradients"]),
        baselines=tuple(used),
        operators={
            k: v for k, v in first.describe["operators"].items() if not operators.is_free(k)
        },
        parameters=tuple(
            f"{k} {dtype}{shape}" for k, (shape, dtype) in first.describe["state"].items()
        ),
        notes=tuple(handle.notes),
        neighbours=handle.neighbours,
        graph=graph,
    )


def _problem(handle: OpenTask, name: str) -> str:
    """Return why a case cannot be judged, after drawing its parameters again if they may be the
    reason: one extreme bias can make every output the same."""
    reason = validation.problem(handle.pool(name))
    for _ in range(MORE_PARAMETERS if handle.pools[name].describe["state"] else 0):
        if not reason:
            break
        handle.pools.pop(name).close()
        reason = validation.problem(handle.pool(name))
    return reason


def _name(path: str, source: str) -> str:
    if not path:
        return f"task-{hashlib.sha256(source.encode()).hexdigest()[:6]}"
    file = Path(path)
    if file.stem.startswith("task_") and file.parent.name:
        return file.parent.name + file.stem.removeprefix("task")
    return (
        file.parent.name
        if file.stem in ("task", "reference", "model") and file.parent.name
        else file.stem
    )
