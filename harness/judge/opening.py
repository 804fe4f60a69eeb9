"""Opening a task: start its reference worker, learn its cases, refuse what cannot be judged, measure its baselines."""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ..targets import DeviceFamily, cpu
from ..types import Case, Task, TensorSpec
from ..workers import buffers, operators
from . import bounds, bursts, oracle
from .locks import DeviceLock
from .machine import Machine
from .pool import TASK_SECONDS, CasePool, Drawer, InputSet
from .processes import CancelToken, Worker, WorkerDied, WorkerFailed, WorkerTimeout, start_reference

Tell = Callable[[str, str, float], None]  # stage, message, fraction of the whole
SCREENING_BURSTS = 5
COMPILE_SECONDS = 300.0


class TaskRefusedError(Exception):
    """The task cannot be judged; the message names the line where there is one, and the mend."""


@dataclass
class OpenTask:
    """A task with a live reference worker. Not thread-safe."""

    machine: Machine
    family: DeviceFamily
    source: str
    path: str
    held_out: str
    seed: int
    worker: Worker
    opened: dict[str, Any]
    pools: dict[str, CasePool] = field(default_factory=dict)
    slots: dict[str, bursts.Slots] = field(default_factory=dict)
    screening: dict[str, dict[str, float]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @property
    def drawer(self) -> Drawer:
        return Drawer(self.worker, self.family.TORCH_DEVICE)

    @property
    def digest(self) -> str:
        return hashlib.sha256(f"{self.source}\0{self.held_out}".encode()).hexdigest()

    def pool(self, name: str) -> CasePool:
        """The pool of a case, described and with its checking sets."""
        pool = self.described(name)
        self.drawer.checking(pool)
        return pool

    def described(self, name: str) -> CasePool:
        """The pool of a case, with layouts only where nobody has asked for more."""
        if name not in self.pools:
            self.pools[name] = self.drawer.describe(name, bool(self.opened["gradients"]))
        return self.pools[name]

    def prepare(self, name: str, baselines: list[str]) -> None:
        """Make baselines of a case ready for bursts of the pool's length, in the present reference worker."""
        pool = self.pools[name]
        key = f"{name}/baselines"
        wanted = max(bursts.CHECK_CALLS, pool.calls)
        if key not in self.slots or self.slots[key].count < wanted:
            self.slots[key] = bursts.Slots(wanted, pool.slot_bytes)
        held = self.slots[key]
        for baseline in baselines:
            self.worker.ask(
                "baseline",
                [held.fd],
                seconds=COMPILE_SECONDS,
                case=name,
                name=baseline,
                slots=held.count,
                slot_bytes=pool.slot_bytes,
            )

    def another(self, *, allocation: bool = True) -> Worker:
        """One more reference process with this task opened."""
        worker = _start(self.machine, self.path, allocation=allocation)
        _ask_open(worker, self.source, self.held_out, self.path, self.seed, self.family.TORCH_DEVICE)
        return worker

    def restart(self) -> None:
        """A fresh reference process for the same cases and seeds: the other half of a fresh process pair."""
        self.worker.close()
        self.worker = self.another()
        for name, pool in self.pools.items():
            self.worker.ask("describe", seconds=TASK_SECONDS, case=name, seed=pool.seed)

    def close(self) -> None:
        self.worker.close()
        for pool in self.pools.values():
            pool.close()


def open_task(
    machine: Machine,
    source: str,
    path: str,
    tell: Tell,
    cancel: CancelToken | None,
    *,
    family: DeviceFamily = cpu,
    timed: bool = True,
    checked: bool = True,
) -> tuple[OpenTask, Task]:
    """Raises TaskRefusedError, with the worker gone. With `timed`, baselines and ceilings are timed. Without `checked` nothing
    can be verified later: only shapes are learned."""
    companion = Path(path).with_name(f"{Path(path).stem}.heldout.py") if path else None
    held_out = companion.read_text() if companion is not None and companion.is_file() else ""
    worker = _start(machine, path)
    worker.cancel = cancel
    seed = secrets.randbits(48)
    handle = OpenTask(machine, family, source, path, held_out, seed, worker, {})
    try:
        tell("open", "reading the task", 0.0)
        handle.opened = _ask_open(worker, source, held_out, path, seed, family.TORCH_DEVICE)
        task = _learn(handle, tell, timed, checked)
        worker.cancel = None
        return handle, task
    except WorkerFailed as error:
        handle.close()
        raise TaskRefusedError(str(error)) from error
    except WorkerTimeout as error:
        handle.close()
        raise TaskRefusedError(
            f"{_filename(path)}: the task did not answer in time; does it loop, wait for input or download something?"
        ) from error
    except WorkerDied as error:
        log = worker.log()
        handle.close()
        raise TaskRefusedError(f"{_filename(path)}: the task's process {error}. It printed: {log[-800:] or 'nothing'}") from error
    except BaseException:
        handle.close()
        raise


def _start(machine: Machine, path: str, *, allocation: bool = True) -> Worker:
    folder = os.path.dirname(os.path.abspath(path)) if path else machine.scratch
    return start_reference(machine.cache, folder, allocation=allocation)


def _filename(path: str) -> str:
    return os.path.basename(path) if path else "task.py"


def _ask_open(worker: Worker, source: str, held_out: str, path: str, seed: int, device: str) -> dict[str, Any]:
    fds = [buffers.from_bytes("task", source.encode())]
    if held_out:
        fds.append(buffers.from_bytes("held out", held_out.encode()))
    try:
        reply = worker.ask(
            "open",
            fds,
            seconds=TASK_SECONDS,
            filename=_filename(path),
            seed=seed,
            cpus=len(os.sched_getaffinity(0)),
            device=device,
        )
        opened: dict[str, Any] = worker.data(reply)
        return opened
    finally:
        for fd in fds:
            os.close(fd)


def _learn(handle: OpenTask, tell: Tell, timed: bool, checked: bool) -> Task:
    declared = handle.opened["cases"]
    cases: list[Case] = []
    for number, entry in enumerate(declared):
        name = entry["name"]
        tell("open", f"case {name}: inputs and high-precision results", 0.05 + 0.35 * number / len(declared))
        if entry["held_out"]:
            cases.append(Case(name, entry["weight"], False, True, entry["arguments"]))
            continue
        if checked:
            _refuse_degenerate(handle, handle.pool(name))
        handle.described(name)
        cases.append(learn_case(handle, Case(name, entry["weight"], entry["protected"], False, entry["arguments"])))
    first = next(handle.pools[c.name] for c in cases if not c.held_out)
    if any(not p.describe["doubled"] for p in handle.pools.values()):
        handle.notes.append("the reference cannot run in float64; its own dtype serves as the reference")
    if timed:
        cases = [c if c.held_out else measure(handle, c, tell, 0.4 + 0.6 * i / len(cases)) for i, c in enumerate(cases)]
    names = ["eager", "compile", *handle.opened["baselines"]]
    used = [n for n in names if any(n in s for s in handle.screening.values())] if timed else names
    return Task(
        name=_name(handle.path, handle.source),
        digest=handle.digest,
        source=handle.source,
        path=handle.path,
        cases=tuple(cases),
        tolerance=handle.opened["tolerance"],
        gradients=bool(handle.opened["gradients"]),
        baselines=tuple(used),
        operators={k: v for k, v in first.describe["operators"].items() if not operators.is_free(k)},
        parameters=tuple(f"{k} {dtype}{shape}" for k, (shape, dtype) in first.describe["state"].items()),
        notes=tuple(handle.notes),
    )


def _name(path: str, source: str) -> str:
    if not path:
        return f"task-{hashlib.sha256(source.encode()).hexdigest()[:6]}"
    file = Path(path)
    if file.stem.startswith("task_") and file.parent.name:
        return file.parent.name + file.stem.removeprefix("task")
    return file.parent.name if file.stem in ("task", "reference", "model") and file.parent.name else file.stem


def learn_case(handle: OpenTask, case: Case) -> Case:
    """The case with what its pool knows: tensors, bytes, operations, input families."""
    pool = handle.pools[case.name]
    inputs = [leaf for leaf in pool.describe["inputs"]["leaves"] if "value" not in leaf]
    written = sum(leaf["nbytes"] for leaf in pool.outputs["leaves"])
    state = _tensor_bytes(pool.describe["state_layout"])
    return replace(
        case,
        inputs=tuple(_spec(leaf) for leaf in inputs),
        outputs=tuple(_spec(leaf) for leaf in pool.outputs["leaves"]),
        bytes_min=sum(leaf["nbytes"] for leaf in inputs) + state + written,
        bytes_written=written,
        operations=float(pool.describe["operations"]),
        families=tuple(pool.families),
        dropped_families=dict(pool.dropped),
    )


def _tensor_bytes(layout: buffers.Layout) -> int:
    """Bytes of the tensors of a layout, without padding."""
    return sum(leaf["nbytes"] for leaf in layout["leaves"] if "value" not in leaf)


def _spec(leaf: dict[str, Any]) -> TensorSpec:
    return TensorSpec(tuple(leaf["shape"]), leaf["dtype"], tuple(leaf["stride"]), leaf["nbytes"])


def _refuse_degenerate(handle: OpenTask, pool: CasePool) -> None:
    """Zeros, a constant or an input in place of the outputs must fail on some checking set; else the task proves nothing."""
    import torch

    filename = _filename(handle.path)
    if any(held.family == "dense" and not held.finite for _, held in pool.checking):
        raise TaskRefusedError(
            f"{filename}: case {pool.name!r}: the outputs hold NaN or infinity on the task's own inputs, so rounding cannot be judged. "
            "Keep the inputs inside the operator's domain."
        )
    for label in ("zeros", "a constant", "its own input"):
        passed = bool(pool.checking)
        constants = [float(e.double().mean()) if e.numel() else 0.0 for e in pool.checking[0][1].expected]
        for _, held in pool.checking:
            if held.family == "special":  # it fails no candidate
                continue
            inputs = buffers.tensors_of(buffers.read(held.inputs, held.layout))
            outputs = zip(held.expected, pool.outputs["leaves"], held.allowed, constants, strict=True)
            for e, leaf, allowed, constant in outputs:
                fake = _fake(label, e, inputs, getattr(torch, leaf["dtype"]), constant)
                passed = passed and fake is not None and oracle.compare(fake, e, allowed).signal is None
        if passed:
            raise TaskRefusedError(
                f"{filename}: case {pool.name!r}: {label} instead of the outputs would pass the check, so a right result proves nothing. "
                "Use inputs that make the outputs vary (other distribution, scale or shape)."
            )


def _fake(label: str, expected: Any, inputs: list[Any], dtype: Any, constant: float) -> Any:
    """What somebody lazy would return; the constant is that of one draw, used for all."""
    import torch

    if label == "its own input":
        return next((i for i in inputs if i.shape == expected.shape and i.dtype == dtype), None)
    return torch.full(expected.shape, 0.0 if label == "zeros" else constant, dtype=torch.float64, device=expected.device).to(
        dtype
    )


def measure(handle: OpenTask, case: Case, tell: Tell, fraction: float) -> Case:
    """Screen every baseline of a case: verified, then a few bursts each under the device lock."""
    pool = handle.pools[case.name]
    lock = DeviceLock(handle.family.device_id())
    times: dict[str, float] = {}
    for baseline in ["eager", "compile", *handle.opened["baselines"]]:
        tell("baseline", f"case {case.name}: {baseline}", fraction)
        try:
            handle.prepare(case.name, [baseline])
            key, slots = f"{case.name}/{baseline}", handle.slots[f"{case.name}/baselines"]
            _, held = pool.checking[0]
            bursts.run(handle.worker, slots, key, [held], [0, 0], COMPILE_SECONDS)
            if (wrong := _baseline_wrong(pool, slots, held)) and baseline != "eager":
                handle.notes.append(
                    f"baseline {baseline} gives another result than the reference in case {case.name} ({wrong}); left out"
                )
                continue
            with lock.hold():
                first = bursts.run(handle.worker, slots, key, [held], [0], COMPILE_SECONDS)
                if not pool.timing:
                    handle.drawer.timing(pool, first.inside_ns / 1e3)
                    handle.prepare(case.name, [baseline])
                times[baseline] = _screen(handle, pool, key)
        except WorkerFailed as error:
            handle.notes.append(f"baseline {baseline} does not run in case {case.name}: {str(error).splitlines()[0][:200]}")
    handle.screening[case.name] = times
    working_set = (pool.input_bytes + pool.slot_bytes) * max(1, len(pool.timing))
    roofline = bounds.roofline_us(case, handle.machine.ceilings_of(handle.family), working_set)
    return replace(
        case, baselines_us=times, roofline_us=roofline, families=tuple(pool.families), dropped_families=dict(pool.dropped)
    )


def _screen(handle: OpenTask, pool: CasePool, key: str) -> float:
    found, slots = [], handle.slots[f"{pool.name}/baselines"]
    queue_ns = 0
    for number in range(SCREENING_BURSTS):
        chosen = bursts.group(pool, number)
        calls, patience = list(range(len(chosen))), bursts.patience(queue_ns)
        result = bursts.run(handle.worker, slots, key, chosen, calls, COMPILE_SECONDS, queue_ns=patience)
        queue_ns = max(queue_ns, result.queued_ns)
        found.append(result.inside_ns / 1e3 / len(chosen))
    return sorted(found)[len(found) // 2]


def _baseline_wrong(pool: CasePool, slots: bursts.Slots, held: InputSet) -> str:
    own = slots.tensors(pool.outputs, 0)
    for output, expected, allowed, framework in zip(own, held.expected, pool.allowances, held.framework, strict=True):
        finding = oracle.compare(output, expected, _doubled(allowed), framework)
        if finding.signal is not None:
            return finding.detail
    return ""


def _doubled(a: oracle.Allowance) -> oracle.Allowance:
    """Baselines may be twice as far off as candidates: the user chose them."""
    return replace(a, norm=2 * a.norm, row=2 * a.row, element=2 * a.element, least=2 * a.least, rule="rounding")
