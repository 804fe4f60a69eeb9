"""This machine: environment, isolation levels (tested, not guessed), targets, ceilings."""

from __future__ import annotations

import importlib
import os
import platform
import shutil
import tempfile
import threading
import time
from dataclasses import replace
from functools import cache, cached_property
from pathlib import Path

from ... import native
from ...languages import LANGUAGES
from ...sandbox.confine import Confinement
from ...settings import task_isolation, timing_effort
from ...targets import ARCHITECTURES, DeviceFamily, cpu, framework
from ...types import (
    ISOLATION_LEVELS,
    TASK_ISOLATION,
    Ceilings,
    Environment,
    EvaluationRequest,
    IsolationLevel,
    MachineReport,
    Target,
    TargetReport,
)
from ..errors import CancelToken, Refused, WorkerDied, WorkerTimeout
from ..process_environment import evaluator_digest, harness_root, python_command
from ..processes import bubblewrap, runtimes
from ..processes.compilers import compiler_version
from ..processes.fork_server_process import ForkServer
from ..processes.fork_servers import Servers, importable, readable_paths
from ..processes.reaper import Reaper
from ..processes.spare_worker import SpareWorker
from ..processes.worker import Worker
from . import host_memory, locks, target_reports

_SCRATCH = "kevolve-judge-"
CEILINGS_S = 60.0  # the least time between two measurements of ceilings, which take up to 5 s


class Machine:
    """The machine, whose facts are read once. scratch: a private folder for the isolation levels
    without a mount namespace."""

    def __init__(self, cache: Path) -> None:
        self.cache = cache
        _remove_left_over()
        self.scratch = tempfile.mkdtemp(prefix=f"{_SCRATCH}{os.getpid()}-")
        self.servers = Servers(cache, self.scratch, locks.sharing)
        self.spare_worker, self.spare_timed_worker = SpareWorker(), SpareWorker()
        # by family: the measured ceilings, and the earliest time of another measurement
        self._ceilings: dict[str, Ceilings] = {}
        self._ceilings_until: dict[str, float] = {}
        self.reaper = Reaper()

    @property
    def fork_server(self) -> ForkServer:
        """The fork server for CPU candidates and compilers."""
        return self.server_for(cpu)

    def server_for(self, family: DeviceFamily) -> ForkServer:
        """Return the fork server from which candidates for a device family are forked."""
        return self.servers.candidates(family, self.level)

    def place(self, family: DeviceFamily, target: Target, language: str) -> runtimes.Place:
        """Return where candidates of a language are evaluated for a target that `targets` lists."""
        if target.family in LANGUAGES[language].interpreted_on:
            return runtimes.interpreter(
                self.servers.triton(self.level, interpret=True), self.environment
            )
        return runtimes.Place(
            str(target), "execute", self.server_for(family), self.environment_of(family)
        )

    def compiler(self, target: Target, language: str) -> runtimes.Place:
        """Return where candidates of a language are compiled for a target that the machine need not
        have."""
        name = self.architecture_of(target)
        if LANGUAGES[language].built_as_text:
            return runtimes.tracer(self.fork_server, self.environment, str(target), name)
        return runtimes.compiler(
            self.servers.triton(self.level, interpret=False), self.environment, str(target), name
        )

    def only_compiles(self, target: Target) -> bool:
        """Return whether kernels for a target can be compiled but not run. Such a target names an
        architecture."""
        return bool(target.arch) and any(
            t.target == str(target) and t.mode == "compile" for t in self.targets()
        )

    def architecture(self, target: Target, request: EvaluationRequest) -> str:
        """Return the architecture for which a request that ends with the build is compiled to get
        static facts; "" for languages whose own build reports more."""
        language = request.candidate.language
        return (
            self.architecture_of(target) if target_reports.device_compilers().get(language) else ""
        )

    def architecture_of(self, target: Target) -> str:
        """Return a target's key in ARCHITECTURES, by this machine's device if the target names no
        architecture; "" if unknown."""
        name = (
            str(target) if target.arch else f"{target.family}:{target_reports.architecture_here()}"
        )
        return name if name in ARCHITECTURES else ""

    def expect_first(self) -> None:
        """Start, before the first request, the server that almost every request needs: it imports
        torch at the same time as this process."""
        self.servers.candidates(cpu, "namespaces").launch()

    def expect_task(self, family: DeviceFamily, folder: str, *, compiles: bool) -> None:
        """Start everything that `task_worker` and the first evaluation will need, in parallel and
        without waiting: each process, this one too, imports for seconds."""
        self.server_for(family).launch()
        self.task_server(family, folder, compiles=compiles).launch()
        threading.Thread(target=importlib.import_module, args=("torch",), daemon=True).start()

    def expect_naive(self, family: DeviceFamily, folder: str) -> None:
        """Start the server that the naive figure of a confirmation needs, long before its
        timing."""
        self.task_server(family, folder, allocation=False).launch()

    def task_worker(
        self, family: DeviceFamily, folder: str, *, compiles: bool, allocation: bool = True
    ) -> Worker:
        """Start a confined process for a task. folder: an additional folder that it may read, ""
        for none. compiles: it needs inductor, whose import takes seconds; a process that only draws
        inputs does not. allocation: see ForkServer."""
        server = self.task_server(family, folder, compiles=compiles, allocation=allocation)
        scratch = "" if self.task_level == "namespaces" else tempfile.mkdtemp(dir=self.scratch)
        return server.worker("reference", self._task_rules(family, folder), scratch)

    def task_server(
        self,
        family: DeviceFamily,
        folder: str,
        *,
        compiles: bool = True,
        allocation: bool = True,
        level: IsolationLevel | None = None,
    ) -> ForkServer:
        """Return the fork server for timed tasks; others share that of the candidates. level: that
        of a candidate timed beside the task."""
        readable = self._task_readable(folder)
        if allocation and not compiles:
            return self.servers.candidates(family, self.task_level, readable)
        return self.servers.tasks(family, level or self.task_level, readable, allocation=allocation)

    def _task_readable(self, folder: str) -> tuple[str, ...]:
        """Return what a task may read beyond what every worker may."""
        return (*importable(), self.servers.inductor, *([folder] if folder else []))

    def _task_rules(self, family: DeviceFamily, folder: str) -> Confinement:
        """Return a task's confinement: that of a candidate, but with threads for every core, a
        compiler, and more memory."""
        return replace(
            self.rules(self.task_level, family),
            readable=(*readable_paths(), *self._task_readable(folder)),
            memory_bytes=host_memory.limit_bytes() if family.ADDRESS_SPACE else 0,
            file_bytes=host_memory.limit_bytes(),
            processes=max(512, 16 * (os.cpu_count() or 1)),
            scratch_bytes=2 << 30,
            tools=True,
        )

    @cached_property
    def task_level(self) -> IsolationLevel:
        """The isolation level of tasks: the strongest one available, unless the user chooses
        another."""
        choice = task_isolation()
        return next((level for level in ISOLATION_LEVELS if level == choice), self.level)

    def rules(self, level: str, family: DeviceFamily = cpu) -> Confinement:
        """Return the confinement of a candidate at a level."""
        return Confinement(
            level,
            readable_paths(),
            memory_bytes=family.ADDRESS_SPACE,
            resident_bytes=host_memory.limit_bytes(),
            devices=family.nodes(),
        )

    @cached_property
    def isolation(self) -> dict[str, str]:
        """By level, "available" or the reason why not."""
        try:
            return {level: self._try_level(level) for level in ISOLATION_LEVELS}
        finally:
            self.servers.bare("process").close()

    @cached_property
    def level(self) -> IsolationLevel:
        """The strongest level available; weaker ones are not tested."""
        try:
            return next(
                (level for level in ISOLATION_LEVELS if self._try_level(level) == "available"),
                "process",
            )
        finally:
            self.servers.bare("process").close()

    @cache  # noqa: B019  # one machine lives as long as the process
    def _try_level(self, level: IsolationLevel) -> str:
        """Test a level with a real worker, from a server that starts at once."""
        if level == "bubblewrap" and bubblewrap.program() is None:
            return bubblewrap.MISSING
        server = self.servers.bare(level)
        try:
            worker = server.worker("candidate", self.rules(level), self.scratch)
            try:
                worker.ask("drop", seconds=20, key="")  # a worker confines itself after its start
            finally:
                worker.close()
            return "available"
        except (Refused, WorkerDied, WorkerTimeout, OSError) as error:
            return str(error) or "a worker did not answer"
        finally:
            if level == "bubblewrap":
                server.close()

    @property
    def environment(self) -> Environment:
        """The CPU's environment."""
        return self.environment_of(cpu)

    @cache  # noqa: B019
    def environment_of(self, family: DeviceFamily) -> Environment:
        compiler = compiler_version(native.find_compiler())
        versions = {
            "torch": framework.installed().version,
            "compiler": compiler,
            "python": platform.python_version(),
            **_triton(),
        }
        versions["evaluator"] = evaluator_digest(Path(harness_root()) / "harness")[:12]
        if (effort := timing_effort()) != 1:
            versions["timing effort"] = f"{effort:g}"
        versions |= family.versions()
        return Environment(
            device=family.device_key(),
            toolchain=", ".join(v if k == "compiler" else f"{k} {v}" for k, v in versions.items()),
            isolation=self.level,
            allocation=family.ALLOCATION,
            threads=1,
            facts={**family.facts(), **versions, TASK_ISOLATION: self.task_level},
        )

    def ceilings_of(self, family: DeviceFamily) -> Ceilings:
        """Return the measured ceilings of a family's device."""
        if family.NAME not in self._ceilings:
            self._ceilings[family.NAME] = self._measure_ceilings(family)
        return self._ceilings[family.NAME]

    def ceilings_again(self, family: DeviceFamily) -> Ceilings:
        """Return ceilings that a kernel was found to exceed, measured again if CEILINGS_S have
        passed: the machine may have been busy before. Call it with the device lock held."""
        before, now = self.ceilings_of(family), time.monotonic()
        if now > self._ceilings_until.get(family.NAME, 0.0):
            self._ceilings[family.NAME] = self._measure_ceilings(family, before)
            self._ceilings_until[family.NAME] = now + CEILINGS_S
        return self._ceilings[family.NAME]

    def _measure_ceilings(self, family: DeviceFamily, exceeded: Ceilings | None = None) -> Ceilings:
        measure = python_command("harness.targets", f"{family.NAME}.measure")
        return family.ceilings(self.cache, measure, exceeded)

    def targets(self) -> tuple[TargetReport, ...]:
        """Return what this machine can do for every target."""
        return tuple(target_reports.report_targets())

    def report(self, *, ceilings: bool, cancel: CancelToken | None = None) -> MachineReport:
        """Describe the machine. ceilings: with those of the host. Raises Cancelled and LockBroken
        where they have to be measured."""
        threading.Thread(target=runtimes.triton_support).start()  # needed below
        return MachineReport(
            self.environment,
            self.targets(),
            self.isolation,
            self._host_ceilings(cancel) if ceilings else None,
        )

    def _host_ceilings(self, cancel: CancelToken | None) -> Ceilings:
        """Return the host's ceilings, measured under the device lock if there are no recent
        ones."""
        ceilings = self._ceilings.get(cpu.NAME) or cpu.cached_ceilings(self.cache)
        if ceilings is not None:
            return ceilings
        with locks.DeviceLock(cpu.device_id()).hold(cancel):
            return self.ceilings_of(cpu)

    def close(self) -> None:
        """End the fork server and remove the scratch folder."""
        self.servers.close()  # first, so that no thread waits for a server that is starting
        self.spare_worker.drop()
        self.spare_timed_worker.drop()
        self.servers.close()  # again: starting spare workers may have launched some
        shutil.rmtree(self.scratch, ignore_errors=True)


def _triton() -> dict[str, str]:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return {"triton": version("triton")}
    except PackageNotFoundError:
        return {}


def _remove_left_over() -> None:
    """Remove the scratch folders of judges that were killed."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_SCRATCH}*"):
        owner = folder.name.removeprefix(_SCRATCH).split("-")[0]
        if owner.isdigit() and not os.path.exists(f"/proc/{owner}"):
            shutil.rmtree(folder, ignore_errors=True)
