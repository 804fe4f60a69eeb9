"""The state of one evaluation, and what its stages share: confined workers with the candidate
loaded and prepared."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from ..languages import LANGUAGES, Language
from ..sandbox.confine import Confinement
from ..types import Case, CaseResult, EvaluationRequest, IsolationLevel, Signal, StageReport, Task
from ..wire import buffers
from ..wire.launches import Captured
from .device import host_memory
from .device.locks import DeviceLock
from .device.machine import Machine
from .errors import CancelToken, Interfered, WorkerDied, WorkerFailed, WorkerTimeout
from .exchange import bursts, device_link
from .exchange.case_pool import CasePool
from .exchange.slots import Slots
from .failures import Failure, explain
from .figures import case_times
from .processes.builds import BuildService
from .processes.runtimes import Place
from .processes.worker import ForkServer, Worker
from .tasks.opening import OpenTask, Tell

T = TypeVar("T")
LOAD_SECONDS = 30.0
BUILD_SECONDS = 60.0
# for one case that is only compiled: host code, every specialization and configuration that it
# launches
COMPILE_SECONDS = 180.0
# calls may take 200 times as long as the strongest baseline, and 10 s in any case;
CALL_FLOOR_SECONDS, CALL_FACTOR = 10.0, 200.0
# as often as what a large case reads and writes a copy of eager may map it, with what its operators
# hand on
HELD_TIMES = 24
# of a device, beyond what checking takes: who holds less is not why the judge gets none
HELD_BYTES = 4 << 30
SLOW_FACTOR = 20.0  # 20 times where the baseline takes half a second or was not timed


@dataclass
class Run:
    """The state of one evaluation."""

    machine: Machine
    place: Place
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
    times: dict[str, case_times.CaseTimes] = field(default_factory=dict)
    library: dict[str, int] = field(default_factory=dict)
    launches: int = 0  # of its own kernels while verifying
    # C++ functions while verifying: calls by build and name
    called: dict[str, dict[str, int]] = field(default_factory=dict)
    # of autotuned kernels, by case: which were verified
    configurations: dict[str, Any] = field(default_factory=dict)
    # of load_cuda, that were launched while verifying
    kernels: list[Captured] = field(default_factory=list)
    static: list[Signal] = field(default_factory=list)  # what their binaries show
    screened: dict[str, Case] = field(default_factory=dict)
    loaded: Worker | None = None
    compiled: int | None = None  # descriptor of what the candidate's checking worker compiled

    @property
    def confirming(self) -> bool:
        """Fresh pairs, every baseline, held-out cases; the task was opened for this run alone."""
        return self.request.purpose in ("confirm", "export")

    @property
    def ablating(self) -> bool:
        """What is timed need not be right: it shows what a part costs, and is no result."""
        return self.request.purpose == "ablation"

    @property
    def bitwise(self) -> bool:
        """Whether outputs have to be the framework's to the last bit: the task's author or the
        policy says so."""
        return "bitwise" in (self.facts.tolerance, self.request.policy.tolerance)

    @property
    def cases(self) -> list[Case]:
        wanted = set(self.request.cases)
        return [
            c
            for c in self.facts.cases
            if (not wanted or c.name in wanted) and (self.confirming or not c.held_out)
        ]

    def guard(self, where: str, worker: Worker, action: Callable[[], T]) -> T:
        """Whatever the worker does becomes a Failure."""
        try:
            return action()
        except (WorkerFailed, WorkerDied, WorkerTimeout, Interfered) as error:
            raise explain(
                error, where, worker.log(), worker.flooded, self.builds.records, self.language
            ) from error
        except Exception as error:
            if (failure := self.starved(where, worker, error)) is None:
                raise
            raise failure from error

    def starved(self, where: str, worker: Worker, error: Exception) -> Failure | None:
        """What a candidate is told that left the judge no memory of the device; None where
        something else went wrong, or it holds no more than what the largest case takes. Its worker
        has ended then."""
        if not device_link.is_want_of_memory(error):
            return None
        taken = max((bursts.checked_bytes(pool) for pool in self.task.pools.values()), default=0)
        held = device_link.freed_by_ending(worker)
        if held < HELD_BYTES + taken:
            return None
        text = (
            f"{where}: it holds {held / 2**30:.1f} GiB of the device's memory, and nothing is "
            "left to judge it with"
        )
        return Failure(
            "crashed", text, (Signal("out_of_memory", text, {"held_bytes": float(held)}),)
        )


def begin(
    machine: Machine,
    place: Place,
    task: OpenTask,
    facts: Task,
    request: EvaluationRequest,
    level: IsolationLevel,
    tell: Tell,
    cancel: CancelToken | None,
) -> Run:
    """The state in which every evaluation starts, with a build service of its own."""
    language, compiles = LANGUAGES[request.candidate.language], place.mode == "compile"
    seconds = COMPILE_SECONDS if compiles else BUILD_SECONDS
    rules, scratch = machine.rules(level), machine.scratch
    builds = BuildService(machine.fork_server, rules, scratch, seconds, machine.reaper, cancel)
    if request.purpose == "confirm" and place.mode == "execute" and task.family.EXTRA_FIGURES:
        machine.expect_naive(task.family, task.text.folder)
    lock = DeviceLock(place.environment.device if compiles else task.family.device_id())
    return Run(machine, place, task, facts, request, level, language, builds, tell, cancel, lock)


def start_worker(run: Run, *, poison: bool = False, cores: Sequence[int] = ()) -> Worker:
    """A fresh confined worker with the candidate loaded: on the timing core with one thread, or on
    `cores` with a thread each. It cannot leave them, unless it only verifies (`poison`): races are
    looked for on all cores. The first worker of an evaluation decides what is built for it. One
    that is timed is a fork of the same
    process as the reference's: where code and libraries lie is decided there. Equal calls of 11 us
    differed by 4 % before, by 1 to 2 % since (seen on a CPU)."""
    pinned = tuple(cores or run.task.timing_cpus)
    if poison:
        server, rules, prestarted = run.place.server, _rules(run), run.machine.prestarted
    else:
        server, rules = _timed(run, pinned)
        prestarted = run.machine.prestarted_timed
    worker = prestarted.take(server, run.place.worker, rules, run.cancel) or server.worker(
        run.place.worker, rules, run.machine.scratch
    )
    worker.cancel, worker.on_build = run.cancel, run.builds.desk()
    source = buffers.from_bytes("candidate", run.request.candidate.source.encode())
    try:
        given = [source] if run.compiled is None else [source, *worker.own(run.compiled)]
        if run.place.device:
            run.guard(
                "loading",
                worker,
                lambda: worker.ask("device", seconds=LOAD_SECONDS, **run.place.device),
            )
        run.guard(
            "loading",
            worker,
            lambda: worker.ask("load", given, seconds=LOAD_SECONDS, poison=poison),
        )
        run.guard(
            "loading",
            worker,
            lambda: worker.ask(
                "threads",
                seconds=LOAD_SECONDS,
                count=len(cores) or 1,
                cpus=pinned if poison else (),
            ),
        )
        return worker
    except BaseException:
        worker.close()
        raise
    finally:
        os.close(source)


def _timed(run: Run, pinned: tuple[int, ...]) -> tuple[ForkServer, Confinement]:
    """Where a worker that is timed is forked from, and how it is confined."""
    family = run.task.family
    rules = replace(_rules(run), cpus=pinned, forks=run.place.mode == "compile" or family.FORKS)
    if run.place.mode != "execute":
        return run.place.server, rules
    return run.machine.task_server(family, run.task.text.folder, level=run.level), rules


def prestart_timed(run: Run) -> None:
    """Begin with the next worker that will be timed on a device, whose context takes as long as
    drawing inputs does. It has no candidate yet."""
    family = run.task.family
    if run.place.mode == "execute" and family.SLOW_START:
        server, rules = _timed(run, tuple(run.task.timing_cpus))
        run.machine.prestarted_timed.start(
            server, run.place.worker, rules, run.machine.scratch, family.TORCH_DEVICE
        )


def _rules(run: Run) -> Confinement:
    """A candidate's confinement, with the address space that the largest case needs."""
    rules = run.machine.rules(run.level, run.task.family)
    case_bytes = max(
        (p.input_bytes + p.slot_bytes + p.state_bytes for p in run.task.pools.values()), default=0
    )
    return replace(
        rules, memory_bytes=address_space(rules.memory_bytes, case_bytes, host_memory.allowed())
    )


def address_space(granted: int, case_bytes: int, allowed: int) -> int:
    """Bytes that a candidate may map; granted: by its device family, 0 for any number. More for a
    large case, whose inputs and outputs are there several times, mapped and fenced, and as often
    again as its operators hand values on."""
    return max(granted, min(HELD_TIMES * case_bytes, allowed)) if granted else 0


def prestart(run: Run) -> None:
    """Begin with the worker that will check the next candidate."""
    family = run.task.family
    if run.place.mode == "execute":
        run.machine.prestarted.start(
            run.place.server,
            run.place.worker,
            _rules(run),
            run.machine.scratch,
            family.TORCH_DEVICE,
        )


def keep_compiled(run: Run) -> None:
    """Spare the timing workers what the checking worker has compiled, where compiling happens at
    the first launch."""
    late = run.task.family.COMPILES_AT_LAUNCH
    if run.loaded is None or not late or run.compiled is not None:
        return
    fd = buffers.create("compiled", 0, fixed=False)
    worker = run.loaded

    def pack() -> bool:
        found = worker.data(worker.ask("pack", [fd], seconds=LOAD_SECONDS))
        if (
            not isinstance(found, dict)
            or not isinstance(found.get("bytes"), int)
            or found["bytes"] <= 0
        ):
            return False
        try:
            buffers.seal(fd)
        except OSError as error:
            raise Interfered(
                "it keeps hold of the file in which it handed over what it compiled"
            ) from error
        return True

    try:
        if run.guard("handing over what was compiled", worker, pack):
            run.compiled = fd
    finally:
        if run.compiled is None:
            os.close(fd)


def prepare(
    run: Run, worker: Worker, pool: CasePool, count: int, before: Slots | None = None
) -> Slots:
    """Construct the candidate's model for a case and give it the reference's parameters. before:
    slots that this worker is done with."""
    slots = bursts.slots(pool, count, before)

    def prepare() -> None:
        worker.ask(
            "case",
            [*worker.own(pool.init_fd), *slots.fds],
            seconds=LOAD_SECONDS,
            key=pool.name,
            init=pool.describe["init"],
            outputs=pool.outputs,
            slots=count,
            slot_bytes=pool.slot_bytes,
            state=pool.describe["state"],
            seed=pool.seed,
            upstream=pool.upstream,
            device=run.task.family.TORCH_DEVICE,
        )
        set_state(worker, pool, 0)

    run.guard(f"case {pool.name}: construction", worker, prepare)
    return slots


def set_state(worker: Worker, pool: CasePool, seed: int) -> None:
    if pool.describe["state"]:
        layout = pool.describe["state_layout"]
        worker.ask(
            "state",
            worker.own(pool.states[seed]),
            seconds=LOAD_SECONDS,
            key=pool.name,
            layout=layout,
        )


def call_seconds(case: Case, calls: int, reference_s: float = 0.0) -> float:
    """How long so many calls may take. reference_s: one of the reference, which counts where no
    baseline was timed."""
    known = min(case.baselines_us.values(), default=0.0) / 1e6
    one = (
        min(CALL_FACTOR * known, max(CALL_FLOOR_SECONDS, SLOW_FACTOR * known))
        if known
        else SLOW_FACTOR * reference_s
    )
    return max(CALL_FLOOR_SECONDS, calls * one)
