"""What this machine offers: environment, isolation levels (probed, not guessed), targets, ceilings."""

from __future__ import annotations

import importlib
import os
import platform
import shutil
import sys
import sysconfig
import tempfile
from dataclasses import replace
from functools import cache, cached_property
from pathlib import Path

from .. import native
from ..languages import LANGUAGES
from ..targets import ARCHITECTURES, DeviceFamily, cpu, cuda, nvml
from ..types import (
    ISOLATION_LEVELS,
    TASK_ISOLATION,
    Ceilings,
    Environment,
    EvaluationRequest,
    IsolationLevel,
    MachineReport,
    Mode,
    Target,
    TargetReport,
)
from ..workers import placement
from ..workers.confine import Confinement
from . import memory, places
from .builds import compiler_version
from .endings import Refused, WorkerDied
from .environment import ALLOCATION_NAME, evaluator_digest, timing_effort
from .processes import ForkServer, Worker, command, harness_root

_SCRATCH = "kevolve-judge-"
_PACKAGES = ("site-packages", "dist-packages")
TASK_USER = 65533  # not that of candidates, so that limits on the number of processes are not shared


class Machine:
    """Facts are read once. `scratch` is a private folder for the levels without a mount namespace."""

    def __init__(self, cache: Path) -> None:
        self.cache = cache
        _remove_left_over()
        self.scratch = tempfile.mkdtemp(prefix=f"{_SCRATCH}{os.getpid()}-")
        self._fork_servers: dict[str, ForkServer] = {}

    @property
    def fork_server(self) -> ForkServer:
        """The one for CPU candidates and for compilers."""
        return self.server_for(cpu)

    def server_for(self, family: DeviceFamily) -> ForkServer:
        """The fork server from which candidates for a device family are forked."""
        if family.NAME not in self._fork_servers:
            self._fork_servers[family.NAME] = ForkServer(family.preload(), environment=self._variables(family))
        return self._fork_servers[family.NAME]

    def triton_server(self, *, interpret: bool) -> ForkServer:
        """One that holds Triton's interpreter, or its compilers: which of both is settled when triton is imported."""
        name = "interpreter" if interpret else "compilers"
        if name not in self._fork_servers:
            more = "triton.runtime.interpreter" if interpret else "triton.compiler"
            environment = {"TRITON_INTERPRET": "1"} if interpret else {}
            self._fork_servers[name] = ForkServer(["torch", "triton", "triton.testing", more], environment=environment)
        return self._fork_servers[name]

    def place(self, family: DeviceFamily, target: Target, language: str) -> places.Place:
        """Where candidates of a language are evaluated for a target that `targets` lists for it."""
        if language == "triton" and target.family == "cpu":
            return places.interpreter(self.triton_server(interpret=True), self.environment)
        return places.Place(str(target), "execute", self.server_for(family), self.environment_of(family))

    def compiler(self, target: Target, language: str) -> places.Place:
        """Where candidates of a language are compiled for a target that need not be here."""
        name = self.architecture_of(target)
        if language == "cuda":
            return places.tracer(self.fork_server, self.environment, str(target), name)
        return places.compiler(self.triton_server(interpret=False), self.environment, str(target), name)

    def only_compiles(self, target: Target) -> bool:
        """Whether kernels can be compiled for a target, and not run."""
        return any(t.target == str(target) and t.mode == "compile" for t in self.targets())

    def architecture(self, target: Target, request: EvaluationRequest) -> str:
        """For what a build of this request is compiled with static facts; "" where the language's own build says more."""
        language = request.candidate.language
        able = {"triton": not places.triton_here().problem, "cuda": bool(native.find_toolkit().version)}
        return self.architecture_of(target) if able.get(language) else ""

    def architecture_of(self, target: Target) -> str:
        """The key in ARCHITECTURES of a target, with that of the device here where it names none; "" if it is not known."""
        name = str(target) if target.arch else f"{target.family}:{self._architecture()}"
        return name if name in ARCHITECTURES else ""

    def expect_task(self, family: DeviceFamily, *, compiles: bool) -> None:
        """Start what `task_worker` and the first evaluation will need, all at once: each imports for seconds, and so does this process."""
        self.server_for(family).launch()
        self.task_server(family, compiles=compiles, allocation=True).launch()
        importlib.import_module("torch")

    def expect_naive(self, family: DeviceFamily) -> None:
        """Start what the naive figure of a confirmation will need, long before it is timed."""
        self.task_server(family, compiles=False, allocation=False).launch()

    def task_worker(self, family: DeviceFamily, folder: str, *, compiles: bool, allocation: bool = True) -> Worker:
        """A confined process for a task. folder: what it may read besides, "" for nothing. compiles: it will need inductor, whose
        import takes seconds; one that only draws inputs need not wait for it. allocation: see ForkServer."""
        server = self.task_server(family, compiles=compiles, allocation=allocation)
        scratch = "" if self.task_level == "namespaces" else tempfile.mkdtemp(dir=self.scratch)
        return server.worker("reference", self._task_rules(family, folder), scratch)

    def task_server(self, family: DeviceFamily, *, compiles: bool = True, allocation: bool = True) -> ForkServer:
        """The fork server for tasks that are timed; those that are not share the candidates'."""
        if allocation and not compiles:
            return self.server_for(family)
        name = f"tasks on {family.NAME}{'' if allocation else ', default allocation'}"
        if name not in self._fork_servers:
            more = ["torch._inductor.compile_fx"] if allocation else []
            compiled = str(self._inductor) if allocation and family is cpu else ""
            self._fork_servers[name] = ForkServer(
                [*family.preload(), *more],
                allocation=allocation,
                environment={**placement.NO_DEVICE_YET, **self._variables(family)},
                compiled=compiled,
            )
        return self._fork_servers[name]

    def _variables(self, family: DeviceFamily) -> dict[str, str]:
        """The family's, and where a fork server itself compiles; workers have folders of their own."""
        folders = {} if family is cpu else {"TRITON_CACHE_DIR": str((self.cache / "triton").absolute())}
        return {**family.environment(), **folders}

    @property
    def _inductor(self) -> Path:
        """Where the fork servers of tasks, which see no task, have compiled what all tasks need. Tasks may read it."""
        return (self.cache / "inductor").absolute()

    def _task_rules(self, family: DeviceFamily, folder: str) -> Confinement:
        """As a candidate's, but with room for every core, a compiler, and as much memory as is reasonable."""
        importable = (p for p in sys.path[1:] if os.path.isdir(p) and not everybodys(p))  # also what is installed in place
        return replace(
            self.rules(self.task_level, family),
            readable=(*self._readable, *importable, str(self._inductor), *([folder] if folder else [])),
            memory_bytes=memory.allowed() if family.ADDRESS_SPACE else 0,
            file_bytes=memory.allowed(),
            processes=max(512, 16 * (os.cpu_count() or 1)),
            scratch_bytes=2 << 30,
            user=TASK_USER,
        )

    @cached_property
    def task_level(self) -> IsolationLevel:
        """Under which tasks run: the strongest level there is, unless the user trusts the tasks and says so."""
        asked = os.environ.get("KEVOLVE_TASK_ISOLATION", "")
        return next((level for level in ISOLATION_LEVELS if level == asked), self.level)

    def rules(self, level: str, family: DeviceFamily = cpu) -> Confinement:
        """The confinement of a candidate at a level."""
        return Confinement(
            level, self._readable, memory_bytes=family.ADDRESS_SPACE, resident_bytes=memory.allowed(), devices=family.nodes()
        )

    @cached_property
    def _readable(self) -> tuple[str, ...]:
        """What the interpreter needs: its installation, its libraries, and this harness."""
        paths = {sys.prefix, sys.base_prefix, sys.exec_prefix, *sysconfig.get_paths().values(), os.path.dirname(sys.executable)}
        paths |= {os.path.realpath(p) for p in paths} | {os.path.dirname(os.path.realpath(sys.executable))}
        paths.add(f"{harness_root()}/harness")
        paths |= {p for p in sys.path[1:] if p.endswith(_PACKAGES)}
        for folder in [p for p in paths if p.endswith(_PACKAGES) and os.path.isdir(p)]:
            linked = {os.path.realpath(entry.path) for entry in os.scandir(folder) if entry.is_symlink()}  # kept elsewhere
            paths |= {os.path.dirname(p) if os.path.dirname(p).endswith(_PACKAGES) else p for p in linked}
        return tuple(sorted(p for p in paths if os.path.isabs(p) and os.path.exists(p)))

    @cached_property
    def isolation(self) -> dict[str, str]:
        """level -> "available", or why not. Each is tried for real."""
        found: dict[str, str] = {}
        for level in ISOLATION_LEVELS:
            if level == "bubblewrap":
                found[level] = "not used: the namespaces level does the same without another program"
                continue
            try:
                worker = self.fork_server.worker("candidate", self.rules(level), self.scratch)
                worker.close()
                found[level] = "available"
            except (Refused, WorkerDied, OSError) as error:
                found[level] = str(error)
        return found

    @cached_property
    def level(self) -> IsolationLevel:
        """The strongest level there is."""
        return next((level for level in ISOLATION_LEVELS if self.isolation[level] == "available"), "process")

    @property
    def environment(self) -> Environment:
        """The CPU's."""
        return self.environment_of(cpu)

    @cache  # noqa: B019  # one machine lives as long as the process
    def environment_of(self, family: DeviceFamily) -> Environment:
        import torch

        compiler = compiler_version(native.find_compiler())
        versions = {"torch": torch.__version__, "compiler": compiler, "python": platform.python_version(), **_triton()}
        versions["evaluator"] = evaluator_digest(Path(harness_root()) / "harness")[:12]
        if (effort := timing_effort()) != 1:
            versions["timing effort"] = f"{effort:g}"
        if family is cuda and (version := native.find_toolkit().version):
            versions["CUDA C++ by"] = version
        return Environment(
            device=family.device_key(),
            toolchain=", ".join(v if k == "compiler" else f"{k} {v}" for k, v in versions.items()),
            isolation=self.level,
            allocation=ALLOCATION_NAME if family is cpu else "torch's caching allocator on the device, both sides alike",
            threads=1,
            facts={**family.facts(), **versions, TASK_ISOLATION: self.task_level},
        )

    @cache  # noqa: B019
    def ceilings_of(self, family: DeviceFamily) -> Ceilings:
        """The measured ceilings of a family's device."""
        return family.ceilings(self.cache, command("harness.targets", f"{family.NAME}.measure"))

    def targets(self) -> tuple[TargetReport, ...]:
        """Every target family with what it can do here."""
        compiler = native.find_compiler()
        reason = (
            f"C++ by {compiler_version(compiler)}" if compiler else "no C++ compiler: install g++ (Debian: apt-get install g++)"
        )
        profilers = ("counters of page faults and switches", "static instruction mix (objdump)")
        return (
            TargetReport("cpu", "execute" if compiler else "absent", reason, ("cpp",) if compiler else (), profilers),
            self._cuda(),
            TargetReport(
                "hip", "absent", "kernels do not run on AMD GPUs in this version; hip:gfx942 and others are compiled for"
            ),
            *places.reports(self._architecture()),
        )

    def find(self, target: Target, language: str) -> TargetReport | None:
        """What this machine can do with a language for a target; None for a pair that nobody offers."""
        named = [t for t in self.targets() if t.target == str(target)]
        return next((t for t in named if language in t.languages), None)

    def _architecture(self) -> str:
        """Of the GPU that is here, "" without one."""
        return "" if cuda.missing() else cuda.facts()["architecture"]

    def _cuda(self) -> TargetReport:
        if reason := cuda.missing():
            return TargetReport("cuda", "absent", reason)
        able = {"triton": not places.triton_here().problem, "cuda": bool(native.find_toolkit().version)}
        languages = tuple(n for n, language in LANGUAGES.items() if "cuda" in language.targets and able.get(n))
        mode: Mode = "execute" if languages else "absent"
        others = len(nvml.gpus()) - 1
        more = f"; {others} more GPU{'s' * (others > 1)} here, each with a judge of its own" if others > 0 else ""
        lacking = "" if able["cuda"] else f"; no CUDA C++: {native.MISSING}"
        return TargetReport("cuda", mode, f"{cuda.device_key()}{more}{lacking}", languages, ("device events",))

    def report(self, *, ceilings: bool) -> MachineReport:
        return MachineReport(self.environment, self.targets(), self.isolation, self.ceilings_of(cpu) if ceilings else None)

    def close(self) -> None:
        """End the fork server and remove the scratch folder."""
        for server in self._fork_servers.values():
            server.close()
        shutil.rmtree(self.scratch, ignore_errors=True)


def everybodys(folder: str) -> bool:
    """Whether a folder is one in which everything lies: the home, the temporary folders, what is above them."""
    places = (os.path.expanduser("~"), "/tmp", "/var/tmp", "/dev/shm")
    inside = f"{os.path.realpath(folder).rstrip('/')}/"
    return any(f"{os.path.realpath(place)}/".startswith(inside) for place in places)


def _triton() -> dict[str, str]:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return {"triton": version("triton")}
    except PackageNotFoundError:
        return {}


def _remove_left_over() -> None:
    """Scratch folders of judges that were killed."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_SCRATCH}*"):
        owner = folder.name.removeprefix(_SCRATCH).split("-")[0]
        if owner.isdigit() and not os.path.exists(f"/proc/{owner}"):
            shutil.rmtree(folder, ignore_errors=True)
