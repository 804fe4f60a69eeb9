"""Opening a task: start its reference worker, learn its cases, refuse what cannot be judged,
measure its baselines."""

from __future__ import annotations

import gc
import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ...targets import DeviceFamily, cpu
from ...targets.state import disturbances
from ...types import Case, Task, TensorSpec, task_digest
from ...wire import buffers
from ...wire.task_lines import FORWARD
from ...workers import operators
from ..correctness import oracle, tolerance
from ..device import host_memory, roofline
from ..device.locks import DeviceLock
from ..device.machine import Machine
from ..errors import CancelToken, TaskRefusedError, WorkerFailed
from ..exchange import bursts, device_link
from ..exchange.case_pool import CasePool
from ..exchange.input_sets import InputSet
from ..exchange.slots import Slots
from ..processes.freezing import aside
from ..processes.worker import Worker
from . import validation
from .drawer import Drawer
from .task_workers import TASK_SECONDS, TaskText, TaskWorkers

Tell = Callable[[str, str, float], None]  # stage, message, fraction of the whole
SCREENING_BURSTS = 5
SHORT_US, SHORT_CALLS = 500.0, 16
# at the least at one time, each with outputs in the framework's dtype and in float64; on a device
# two plain ones, then one of them, one of a family and one after the parameters changed
SETS_HELD, SETS_ON_DEVICE = 4, 3
# of the parameters, besides those of the reference: as constructed, changed and grown, as they are
# changed, the candidate's
STATES_HELD = 5
# times that a task's parameters are drawn again before it is refused for what its outputs show
MORE_PARAMETERS = 2
COMPILE_SECONDS = 300.0
# of the memory that is allowed; above it a confirmation draws the timing sets of each case anew for
# each process
CROWDED_SHARE = 0.125


@dataclass
class OpenTask:
    """A task with live processes: `worker` draws inputs and computes what is expected; baselines
    run in another. Not thread-safe."""

    machine: Machine
    family: DeviceFamily
    workers: TaskWorkers
    worker: Worker
    opened: dict[str, Any]
    cancel: CancelToken | None = None  # while it is opened
    # whether sets lie on the device, in memory that workers share with the judge
    shared: bool = False
    pools: dict[str, CasePool] = field(default_factory=dict)
    slots: dict[str, Slots] = field(default_factory=dict)
    screening: dict[str, dict[str, float]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    disturbed: str = ""  # what else used the device while baselines were screened, "" for nothing
    verified: dict[tuple[str, ...], Any] = field(default_factory=dict)  # see verified_before
    _baseline_worker: Worker | None = None
    _constructed: set[str] = field(default_factory=set)  # cases that it has

    @property
    def baseline_worker(self) -> Worker:
        """The process in which baselines run. It draws nothing, and so is as fresh as a
        candidate's: small kernels were 1 to 2 % slower in a process that had drawn inputs (seen on
        a CPU), since what was allocated before decides where memory lies."""
        if self._baseline_worker is None:
            self._baseline_worker, _ = self.workers.start(self.cancel, compiles=True)
        return self._baseline_worker

    @property
    def drawer(self) -> Drawer:
        return Drawer(self.worker, self.family, shared=self.shared)

    @property
    def timing_cpus(self) -> list[int]:
        """Where both sides of a comparison are pinned."""
        return [self.family.timing_cpu()]

    @property
    def text(self) -> TaskText:
        return self.workers.text

    @property
    def digest(self) -> str:
        return task_digest(self.text.source, self.text.held_out, self.neighbours)

    @property
    def neighbours(self) -> dict[str, str]:
        """What the task takes from its folder besides its text: names and digests."""
        return self.workers.known or {}

    def pool(self, name: str) -> CasePool:
        """The pool of a case, described and with its checking sets."""
        pool = self.described(name)
        self.drawer.draw_checking(pool)
        return pool

    def described(self, name: str) -> CasePool:
        """The pool of a case, with layouts only where nobody has asked for more."""
        if name not in self.pools:
            pool = self.pools[name] = self.drawer.describe(name)
            needed, there = _needed(pool), self.drawer.free_bytes()
            if needed > there:
                gc.collect()  # sets of a task that was refused hang in the cycles of its traceback
                there = self.drawer.free_bytes()
            if needed > there:
                raise TaskRefusedError(
                    f"{self.text.lines.at('get_inputs')}: case {name!r}: inputs of "
                    f"{pool.input_bytes / 2**30:.1f} GiB, outputs of {pool.slot_bytes / 2**30:.1f} "
                    f"GiB and parameters of {pool.state_bytes / 2**30:.1f} GiB need about "
                    f"{needed / 2**30:.1f} GiB to be judged, and {there / 2**30:.1f} GiB are "
                    f"free{' on the device' if pool.shared else ''}. Use smaller shapes, or a "
                    "machine with more memory."
                )
        return self.pools[name]

    def has_baselines(self, name: str) -> bool:
        """Whether the process in which baselines run has the reference of a case."""
        return name in self._constructed

    def prepare(self, name: str, baselines: list[str]) -> None:
        """Make baselines of a case ready for bursts of the pool's length, in the present reference
        worker."""
        pool = self.pools[name]
        key = f"{name}/baselines"
        wanted = max(2, pool.warm + pool.calls)  # it is checked with two
        if key not in self.slots or self.slots[key].count < wanted:
            self.slots[key] = bursts.slots(pool, wanted)
        held = self.slots[key]
        if name not in self._constructed:
            Drawer(self.baseline_worker).construct(pool)
            self._constructed.add(name)
        for baseline in baselines:
            self.baseline_worker.ask(
                "baseline",
                [*held.fds],
                seconds=COMPILE_SECONDS,
                case=name,
                name=baseline,
                slots=held.count,
                slot_bytes=pool.slot_bytes,
            )

    def restart(self, *, at_once: bool = False) -> None:
        """Let baselines run in a fresh process: the other half of a fresh process pair. at_once:
        start it now and not when it is needed."""
        if self._baseline_worker is not None:
            self.workers.keep(self._baseline_worker)
            self._baseline_worker.close()
            self._baseline_worker = None  # also where no other can be started
        self._baseline_worker = self.workers.start(compiles=True)[0] if at_once else None
        self._constructed.clear()

    def settle(self) -> None:
        """It is open now: what was compiled is kept for later processes, and nobody can cancel it
        any more."""
        if self._baseline_worker is not None:
            self.workers.keep(self._baseline_worker)
            self._baseline_worker.cancel = None
        self.worker.cancel = self.cancel = None

    @property
    def suspect(self) -> Worker:
        """The process that ended, if one has."""
        return (
            self._baseline_worker
            if self._baseline_worker is not None and not self._baseline_worker.pid
            else self.worker
        )

    @property
    def crowded(self) -> bool:
        """Whether the timing sets of all cases together hold more memory than is reasonable."""
        return (
            sum(pool.timing_bytes for pool in self.pools.values())
            > CROWDED_SHARE * host_memory.allowed()
        )

    def release(self, name: str) -> None:
        """A case that has been timed gives its memory back, here and where baselines run."""
        self.pools[name].release(checking=True)
        if (
            self.slots.pop(f"{name}/baselines", None) is not None
            and self._baseline_worker is not None
        ):
            for baseline in self.baselines:
                self.baseline_worker.ask("drop", seconds=TASK_SECONDS, key=f"{name}/{baseline}")
        bursts.forget()
        host_memory.trim()

    @property
    def baselines(self) -> list[str]:
        return ["eager", "compile", *self.opened["baselines"]]

    def close(self) -> None:
        for worker in filter(None, (self.worker, self._baseline_worker)):
            worker.close()
        self.workers.close()
        for pool in self.pools.values():
            pool.close()
        bursts.forget()


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
    """Raises TaskRefusedError, with the worker gone. With `timed`, baselines and ceilings are
    timed. A task that is `reopened` is not validated again. Without `checked`
    nothing can be verified later: only shapes are learned. timed_later: baselines will be wanted,
    and what compiles them takes long to import."""
    text = TaskText.of(source, path)
    machine.expect_task(family, text.folder, compiles=timed or timed_later)
    workers = TaskWorkers(machine, family, text)
    tell("open", "reading the task", 0.0)
    try:
        worker, opened = workers.start(cancel)
    except WorkerFailed as error:
        workers.close()
        raise TaskRefusedError(str(error)) from error
    except BaseException:
        workers.close()
        raise
    handle = OpenTask(machine, family, workers, worker, opened, cancel)
    if family.OWN_MEMORY:
        reason = device_link.refused(worker)
        handle.shared = not reason
        if reason:
            handle.notes.append(
                "everything passes through host memory, and figures are the candidate's own: "
                f"{reason}"
            )
    try:
        task = _learn(handle, tell, timed, checked and not reopened)
        handle.settle()
        return handle, task
    except BaseException as error:
        reason = workers.refusal(error, handle.suspect)
        handle.close()
        if reason:
            raise TaskRefusedError(reason) from error
        raise


def _learn(handle: OpenTask, tell: Tell, timed: bool, validated: bool) -> Task:
    declared = handle.opened["cases"]
    # all of them first: a later opening, which validates nothing, must find the same neighbours
    for entry in declared:
        if not entry["held_out"]:
            tell("open", f"case {entry['name']}: shapes", 0.02)
            handle.described(entry["name"])
    handle.workers.known = handle.worker.data(handle.worker.ask("neighbours", seconds=TASK_SECONDS))
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
            learn_case(
                handle, Case(name, entry["weight"], entry["protected"], False, entry["arguments"])
            )
        )
    first = next(handle.pools[c.name] for c in cases if not c.held_out)
    if any(not p.describe["doubled"] for p in handle.pools.values()):
        handle.notes.append(
            "the reference cannot run in float64; its own dtype serves as the reference"
        )
    graph, untraced = handle.drawer.graph(first)
    if untraced:
        handle.notes.append(
            f"its graph is not known ({untraced}); similar tasks are found by the operators that "
            "ran"
        )
    if timed:
        cases = [
            c if c.held_out else measure(handle, c, tell, 0.4 + 0.6 * i / len(cases))
            for i, c in enumerate(cases)
        ]
    names = handle.baselines
    used = [n for n in names if any(n in s for s in handle.screening.values())] if timed else names
    return Task(
        name=_name(handle.text.path, handle.text.source),
        digest=handle.digest,
        source=handle.text.source,
        path=handle.text.path,
        cases=tuple(cases),
        tolerance=handle.opened["tolerance"],
        gradients=bool(handle.opened["gradients"]),
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
    """Why a case cannot be judged, with parameters drawn anew where those at hand may be the
    reason: one bias that is far off can make every output the same."""
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


def learn_case(handle: OpenTask, case: Case) -> Case:
    """The case with what its pool knows: tensors, bytes, operations, input families."""
    pool = handle.pools[case.name]
    read = [leaf for leaf in pool.describe["inputs"]["leaves"] if "value" not in leaf]
    inputs = read[: len(read) - len(pool.upstream)]
    written = sum(leaf["nbytes"] for leaf in pool.outputs["leaves"])
    held = sum(leaf["nbytes"] for leaf in read) + _tensor_bytes(pool.describe["state_layout"])
    return replace(
        case,
        inputs=tuple(_spec(leaf) for leaf in inputs),
        outputs=tuple(_spec(leaf) for leaf in pool.outputs["leaves"]),
        bytes_held=held + written,
        bytes_min=pool.describe["bytes_read"] + written,
        bytes_written=written,
        operations=float(pool.describe["operations"]),
        families=tuple(pool.families),
        dropped_families=dict(pool.dropped),
    )


def _needed(pool: CasePool) -> int:
    """Bytes without which a case cannot be judged: the sets that are held, and on a device what
    workers hold besides, and the parameters of both."""
    if not pool.shared:
        return SETS_HELD * (pool.input_bytes + 3 * pool.slot_bytes)
    return (
        SETS_ON_DEVICE * pool.set_bytes
        + bursts.working_bytes(pool)
        + 3 * _tensor_bytes(pool.describe["state_layout"])
    )


def _tensor_bytes(layout: buffers.Layout) -> int:
    """Bytes of the tensors of a layout, without padding."""
    return sum(leaf["nbytes"] for leaf in layout["leaves"] if "value" not in leaf)


def _spec(leaf: dict[str, Any]) -> TensorSpec:
    return TensorSpec(tuple(leaf["shape"]), leaf["dtype"], tuple(leaf["stride"]), leaf["nbytes"])


def measure(handle: OpenTask, case: Case, tell: Tell, fraction: float) -> Case:
    """Screen every baseline of a case: verified, then a few bursts each under the device lock."""
    pool = handle.pools[case.name]
    lock = DeviceLock(handle.family.device_id())
    single: dict[str, float] = {}  # microseconds of one call, which says how many make a burst
    for baseline in handle.baselines:
        tell("baseline", f"case {case.name}: {baseline}", fraction)
        try:
            handle.prepare(case.name, [baseline])
            key, slots = f"{case.name}/{baseline}", handle.slots[f"{case.name}/baselines"]
            _, held = pool.checking[0]
            bursts.run(handle.baseline_worker, slots, key, [held], [0, 0], COMPILE_SECONDS)
            if (wrong := _baseline_wrong(pool, slots, held)) and baseline != "eager":
                handle.notes.append(
                    f"baseline {baseline} gives another result than the reference in case "
                    f"{case.name} ({wrong}); left out"
                )
                continue
            us, *_ = bursts.hot(handle.baseline_worker, key, held, 2, COMPILE_SECONDS, 0)
            # two calls of a process that has slept take several times as long as those of a burst
            if us < SHORT_US:
                us, *_ = bursts.hot(
                    handle.baseline_worker, key, held, SHORT_CALLS, COMPILE_SECONDS, 0
                )
            single[baseline] = us
        except WorkerFailed as error:
            _note_failing(handle, case, baseline, error)
    if not single:
        raise _no_baseline(handle, case)
    handle.drawer.draw_timing(pool, min(single.values()), SCREENING_BURSTS)
    times: dict[str, float] = {}
    for baseline in single:
        key = f"{case.name}/{baseline}"
        # with slots for a whole burst now; what is compiled anew is not compiled under the lock
        try:
            handle.prepare(case.name, [baseline])
            bursts.run(
                handle.baseline_worker,
                handle.slots[f"{case.name}/baselines"],
                key,
                [pool.checking[0][1]],
                [0],
                COMPILE_SECONDS,
            )
            with lock.hold(), aside(handle.timing_cpus):
                processes = [handle.baseline_worker.pid]
                before = handle.family.state(processes)
                times[baseline] = _screen(handle, pool, baseline)
                if found := disturbances(before, handle.family.state(processes)):
                    handle.disturbed = found[0].text
        except WorkerFailed as error:
            _note_failing(handle, case, baseline, error)
    if not times:
        raise _no_baseline(handle, case)
    handle.screening[case.name] = times
    pool.release()
    roofline_time_us = roofline.roofline_time_us(
        case, handle.machine.ceilings_of(handle.family), pool.working_set
    )
    return replace(
        case,
        baselines_us=times,
        roofline_time_us=roofline_time_us,
        families=tuple(pool.families),
        dropped_families=dict(pool.dropped),
    )


def _note_failing(handle: OpenTask, case: Case, baseline: str, error: WorkerFailed) -> None:
    handle.notes.append(
        f"baseline {baseline} does not run in case {case.name}: {str(error).splitlines()[0][:200]}"
    )


def _no_baseline(handle: OpenTask, case: Case) -> TaskRefusedError:
    where = handle.text.lines.at(*FORWARD)
    return TaskRefusedError(
        f"{where}: case {case.name!r}: there is nothing to compare with. {'. '.join(handle.notes)}"
    )


def _screen(handle: OpenTask, pool: CasePool, baseline: str) -> float:
    """Median microseconds of a call."""
    worker, key, slots = (
        handle.baseline_worker,
        f"{pool.name}/{baseline}",
        handle.slots[f"{pool.name}/baselines"],
    )
    found, queue_ns = [], 0
    for number in range(SCREENING_BURSTS):
        chosen = bursts.group(pool, number).sets
        calls, patience = list(range(len(chosen))), bursts.patience(queue_ns)
        result = bursts.run(worker, slots, key, chosen, calls, COMPILE_SECONDS, queue_ns=patience)
        queue_ns = max(queue_ns, result.queued_ns)
        found.append(result.inside_ns / 1e3 / len(chosen))
    return sorted(found)[len(found) // 2]


def _baseline_wrong(pool: CasePool, slots: Slots, held: InputSet) -> str:
    own = slots.tensors(pool.outputs, 0)
    for number, (output, allowed, framework) in enumerate(
        zip(own, pool.allowances, held.framework, strict=True)
    ):
        expected = held.wanted(number, output)
        finding = oracle.compare(
            output, expected, replace(tolerance.widen(allowed), rule="rounding"), framework
        )  # the user chose it
        if finding.signal is not None:
            return finding.detail
    return ""
