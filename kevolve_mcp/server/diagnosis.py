"""What this machine can do and what it lacks: gathered and judged here, printed by the command
line."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal

from harness.types import (
    ISOLATION_LEVELS,
    TASK_ISOLATION,
    Device,
    Interpreter,
    MachineReport,
    Policy,
    TargetReport,
    to_json,
)
from kevolve_mcp import __version__
from kevolve_mcp.errors import KEvolveError
from kevolve_mcp.executors.base import Executor
from kevolve_mcp.executors.interpreters import INSTALL_TORCH, USE_LINUX
from kevolve_mcp.quantities import memory
from kevolve_mcp.retrieval import state
from kevolve_mcp.settings import Settings

State = Literal["ok", "warning", "missing"]
COMPILERS = ("g++", "clang++")
LEAST_FREE = 1 << 30  # bytes
COMPILER_REMEDY = (
    "Install a C++ compiler, e.g. `apt install g++`, `dnf install gcc-c++` or `pacman -S gcc`."
)


@dataclass(frozen=True)
class DoctorFinding:
    """One finding. ok: present. warning: something works less well. missing: needed to evaluate.
    remedy: how to fix it."""

    name: str
    state: State
    message: str
    remedy: str = ""


@dataclass(frozen=True)
class Diagnosis:
    """All findings. ready: kernels can be evaluated on the machine. machine: its name in texts."""

    findings: tuple[DoctorFinding, ...]
    interpreters: tuple[Interpreter, ...] = ()
    targets: tuple[TargetReport, ...] = ()
    isolation: dict[str, str] | None = None
    devices: tuple[Device, ...] = ()
    machine: str = "this machine"

    @property
    def ready(self) -> bool:
        return all(f.state != "missing" for f in self.findings)

    def as_json(self) -> dict[str, Any]:
        return {
            "machine": self.machine,
            "ready": self.ready,
            "findings": [to_json(f) for f in self.findings],
            "interpreters": [to_json(i) for i in self.interpreters],
            "targets": [to_json(t) for t in self.targets],
            "isolation": self.isolation or {},
            "devices": [to_json(d) for d in self.devices],
        }


async def diagnose(executor: Executor, settings: Settings) -> Diagnosis:
    """Diagnose this machine; what it lacks is a finding, never an exception."""
    findings = [_version(), _platform(), *_folders(settings), *_compilers()]
    interpreters, report, reason = await _ask(executor)
    findings.append(_torch(interpreters))
    if report is None:
        findings.append(
            DoctorFinding(
                "judge",
                "missing",
                reason,
                "Fix what the lines above say is missing, then run doctor again.",
            )
        )
        return Diagnosis((*findings, _tuning(), _vectors(settings)), interpreters)
    findings += [
        _isolation(report.isolation, report.environment.facts.get(TASK_ISOLATION, "")),
        _executable(report.targets),
        _tuning(),
        _vectors(settings),
    ]
    devices = await executor.devices()
    if devices:
        findings.append(_gpus(devices))
    return Diagnosis(tuple(findings), interpreters, report.targets, report.isolation, devices)


async def _ask(executor: Executor) -> tuple[tuple[Interpreter, ...], MachineReport | None, str]:
    interpreters: tuple[Interpreter, ...] = ()
    try:
        interpreters = await executor.interpreters()
        return interpreters, await executor.describe(), ""
    except KEvolveError as error:
        return interpreters, None, str(error)


def _version() -> DoctorFinding:
    installed = ", ".join(f"{name} {version(name)}" for name in ("mcp", "SQLAlchemy"))
    return DoctorFinding(
        "kevolve",
        "ok",
        f"{__version__} on Python {platform.python_version()} ({sys.executable}); {installed}",
    )


def _platform() -> DoctorFinding:
    said = f"{platform.system()} {platform.release()}, {platform.machine()}, {os.cpu_count()} cores"
    if platform.system() == "Linux":
        return DoctorFinding("platform", "ok", said)
    return DoctorFinding("platform", "missing", f"{said}: evaluation needs Linux", USE_LINUX)


def _folders(settings: Settings) -> list[DoctorFinding]:
    """Where results and builds go."""
    return [
        _folder("home", settings.home, "KEVOLVE_HOME"),
        _folder("cache", settings.cache, "KEVOLVE_CACHE"),
    ]


def _folder(name: str, folder: Path, variable: str) -> DoctorFinding:
    """Whether a file can be created in the folder, or in its nearest existing parent: permission
    bits alone do not tell."""
    existing = next(p for p in (folder.absolute(), *folder.absolute().parents) if p.exists())
    try:
        with tempfile.TemporaryFile(dir=existing):
            pass
    except OSError as error:
        remedy = f"Set {variable} to a writable folder on a local disk."
        return DoctorFinding(
            name, "missing", f"{folder} cannot be written: {error.strerror}", remedy
        )
    free = shutil.disk_usage(existing).free
    state: State = "ok" if free >= LEAST_FREE else "warning"
    remedy = "" if state == "ok" else "Free some space: builds need it."
    return DoctorFinding(name, state, f"{folder} is writable ({memory(free)} free)", remedy)


def _compilers() -> list[DoctorFinding]:
    compilers = {name: path for name in COMPILERS if (path := shutil.which(name))}
    if not compilers:
        return [
            DoctorFinding(
                "compiler", "missing", f"none of {', '.join(COMPILERS)} is on PATH", COMPILER_REMEDY
            )
        ]
    return [
        DoctorFinding(
            "compiler",
            "ok",
            "; ".join(f"{path}: {_first_line(path)}" for path in compilers.values()),
        )
    ]


def _first_line(compiler: str) -> str:
    try:
        done = subprocess.run(
            [compiler, "--version"], capture_output=True, text=True, timeout=10, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"does not answer ({error})"
    return (done.stdout or done.stderr).strip().split("\n")[0]


def _torch(interpreters: tuple[Interpreter, ...]) -> DoctorFinding:
    usable = next((i for i in interpreters if i.usable), None)
    if usable is None:
        return DoctorFinding(
            "torch",
            "missing",
            f"none of {len(interpreters)} interpreters can evaluate (reasons below)",
            INSTALL_TORCH,
        )
    return DoctorFinding(
        "torch", "ok", f"{usable.torch or 'found'} in {usable.path} ({usable.origin})"
    )


def _isolation(levels: dict[str, str], task: str) -> DoctorFinding:
    there = [level for level in ISOLATION_LEVELS if levels.get(level) == "available"]
    not_there = "; ".join(
        f"{level}: {levels.get(level, 'not probed')}"
        for level in ISOLATION_LEVELS
        if level not in there
    )
    said = (
        f"{there[0] if there else 'none'}"
        + (f" ({not_there})" if not_there else "")
        + (f"; tasks run at {task}" if task else "")
    )
    if there and Policy().permits(there[0]):
        return DoctorFinding("isolation", "ok", said)
    remedy = (
        "Allow unprivileged user namespaces (sysctl user.max_user_namespaces, "
        "kernel.apparmor_restrict_unprivileged_userns=0), or accept weaker isolation for code you "
        "trust: `kevolve evaluate --isolation process`."
    )
    return DoctorFinding(
        "isolation",
        "warning",
        f"{said}: weaker than the default policy requires ({Policy().isolation})",
        remedy,
    )


def _executable(targets: tuple[TargetReport, ...]) -> DoctorFinding:
    here = [t for t in targets if t.mode == "execute"]
    if here:
        said = ", ".join(t.target for t in here)
        for mode, words in (("verify", "only verified"), ("compile", "only compiled for")):
            others = [f"{t.target} ({', '.join(t.languages)})" for t in targets if t.mode == mode]
            said += f"; {words}: {', '.join(others)}" if others else ""
        return DoctorFinding("targets", "ok", said)
    why = "; ".join(f"{t.target}: {t.reason}" for t in targets) or "none is known"
    return DoctorFinding(
        "targets",
        "missing",
        f"no target runs here ({why})",
        "Fix the reasons given; the cpu target needs torch and a compiler.",
    )


def _gpus(devices: tuple[Device, ...]) -> DoctorFinding:
    shared = [d for d in devices if d.users]
    said = f"{len(devices)} (listed below); evaluations on different ones run side by side"
    if not shared:
        return DoctorFinding("gpus", "ok", said)
    users = "; ".join(f"GPU {d.index}: {', '.join(d.users)}" for d in shared)
    remedy = "Stop them while kernels are timed, or exclude these GPUs with CUDA_VISIBLE_DEVICES."
    return DoctorFinding(
        "gpus",
        "warning",
        f"{said}; other programs use some of them, which disturbs timing ({users})",
        remedy,
    )


def _tuning() -> DoctorFinding:
    try:
        return DoctorFinding(
            "optuna", "ok", f"{version('optuna')}: parameter search by the offline author"
        )
    except PackageNotFoundError:
        remedy = "pip install 'kevolve-mcp[search]'"
        return DoctorFinding(
            "optuna",
            "warning",
            "not installed: the offline author searches TUNABLES less efficiently",
            remedy,
        )


def _vectors(settings: Settings) -> DoctorFinding:
    """Whether knowledge is also found by meaning. It is optional: off is not a fault."""
    vectors = state(settings)
    return DoctorFinding(
        "vectors", "ok" if vectors.fine else "warning", vectors.message, vectors.remedy
    )
