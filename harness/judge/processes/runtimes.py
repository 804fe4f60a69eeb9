"""The places where candidates run: for each pair of target and language the fork server, the kind
of worker, and the meaning of a verdict."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from ... import native
from ...targets import ARCHITECTURES, Architecture
from ...targets.nvidia import ARCHITECTURES as NVIDIA
from ...types import Environment, Mode, TargetReport
from .fork_server_process import ForkServer

INTERPRETER = "verify-only: Triton's interpreter on the CPU, fp32 and fp16"
COMPILER = "compile-only: Triton compiles every launch of forward, nothing is run"
TRACER = "compile-only: CUDA C++ is built, every launch of forward is recorded, nothing is run"
# for a burst of checking calls: the interpreter runs about a thousand program instances per second
INTERPRETED_SECONDS = 120.0
_PROBE = """
import json, os, sys
report = {"interpreter": "", "backends": []}
try:
    import triton
    from triton.backends import backends
    import triton.runtime.driver, triton.compiler
    report["version"] = triton.__version__
    known = {"nvidia": "cuda", "amd": "hip"}
    report["backends"] = sorted(known.get(name, name) for name in backends)
except Exception as error:
    report["error"] = f"{type(error).__name__}: {error}"
try:
    import numpy
    report["numpy"] = numpy.__version__
except Exception as error:
    report["interpreter"] = f"its interpreter needs numpy ({type(error).__name__}: {error})"
print(json.dumps(report))
"""


@dataclass(frozen=True)
class Place:
    """A place where candidates run. architecture: the one that kernels are only compiled for, ""
    where they run. worker: kind of worker. device: the answers for programs that query a missing
    device. patience_s: the least time for a burst of checking calls. note: why nothing is timed, ""
    where candidates are timed."""

    target: str
    mode: Mode
    server: ForkServer
    environment: Environment
    architecture: str = ""
    worker: str = "candidate"
    device: dict[str, Any] = field(default_factory=dict)
    patience_s: float = 0.0
    note: str = ""


@dataclass(frozen=True)
class TritonSupport:
    """What this interpreter's Triton can do. problem: why it cannot be used at all. interpreter:
    why it cannot be used to verify."""

    version: str = ""
    numpy: str = ""
    backends: tuple[str, ...] = ()
    problem: str = ""
    interpreter: str = ""


_asking = threading.Lock()


def triton_support() -> TritonSupport:
    """Test Triton once, by importing it in another process as the workers do, which takes two
    seconds."""
    with _asking:
        return _ask_triton()


@lru_cache(maxsize=1)
def _ask_triton() -> TritonSupport:
    try:
        process = subprocess.run(
            [sys.executable, "-I", "-c", _PROBE],
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
        )
        report = json.loads(process.stdout.splitlines()[-1])
    except (OSError, subprocess.SubprocessError, ValueError, IndexError) as error:
        return TritonSupport(problem=f"importing triton failed: {error}")
    problem = report.get("error", "")
    if "No module named 'triton'" in problem:
        problem = "triton is not installed (pip install triton)"
    return TritonSupport(
        report.get("version", ""),
        report.get("numpy", ""),
        tuple(report["backends"]),
        problem,
        problem or report["interpreter"],
    )


def reports(device: str) -> tuple[TargetReport, ...]:
    """Return the targets that Triton and CUDA's compilers add to a machine. device: the
    architecture of its GPU ("sm_90"), "" without one."""
    triton = triton_support()
    verify = TargetReport(
        "cpu",
        "absent" if triton.interpreter else "verify",
        triton.interpreter or INTERPRETER,
        ("triton",),
    )
    targets = [verify]
    for name, architecture in ARCHITECTURES.items():
        if triton.problem or architecture.backend not in triton.backends:
            why = triton.problem or f"this triton has no back end for {architecture.backend}"
            targets.append(TargetReport(name, "absent", why))
        elif name != f"cuda:{device}":
            targets.append(
                TargetReport(
                    name,
                    "compile",
                    f"{COMPILER}; triton {triton.version}",
                    ("triton",),
                    ("static facts",),
                )
            )
    return (*targets, *_cuda_reports(device))


def _cuda_reports(device: str) -> list[TargetReport]:
    """Return the architectures for which this machine can compile CUDA C++."""
    version = native.find_toolkit().version
    names = [f"cuda:{a.name}" for a in NVIDIA if a.name != device] if version else []
    return [
        TargetReport(name, "compile", f"{TRACER}; {version}", ("cuda",), ("static facts",))
        for name in names
    ]


def interpreter(server: ForkServer, environment: Environment) -> Place:
    """Return the place for Triton on a CPU. environment: the CPU's."""
    triton = triton_support()
    facts = {
        **environment.facts,
        "triton": triton.version,
        "numpy": triton.numpy,
        "verification": INTERPRETER,
    }
    place_environment = replace(
        environment,
        device=f"{environment.device}:triton-interpreter",
        toolchain=(
            f"triton {triton.version} (interpreter), numpy {triton.numpy}, {environment.toolchain}"
        ),
        facts=facts,
    )
    architecture = next(a for a in NVIDIA if a.name == "sm_90")
    # Few multiprocessors, so that host code which launches one program for each does not keep the
    # interpreter busy needlessly.
    device = {
        **architecture.describe_device(),
        "name": "Triton's interpreter",
        "multiprocessors": 4,
    }
    return Place(
        "cpu",
        "verify",
        server,
        place_environment,
        "",
        "interpreted",
        _answers(architecture, device),
        INTERPRETED_SECONDS,
        INTERPRETER,
    )


def compiler(server: ForkServer, environment: Environment, target: str, name: str) -> Place:
    """Return the place for compiling Triton for an architecture (a key of ARCHITECTURES) without a
    device. environment: the CPU's."""
    triton, architecture = triton_support(), ARCHITECTURES[name]
    place_environment = replace(
        environment,
        device=f"{name} (compiled for, not run)",
        toolchain=f"triton {triton.version}, {environment.toolchain}",
        facts={
            "triton": triton.version,
            "product whose size host code is told": architecture.product,
        },
        allocation="",
    )
    answers = _answers(architecture, architecture.describe_device())
    return Place(
        target, "compile", server, place_environment, name, "capture", answers, note=COMPILER
    )


def tracer(server: ForkServer, environment: Environment, target: str, name: str) -> Place:
    """Return the place for compiling CUDA C++ for an architecture (a key of ARCHITECTURES) without
    a device. environment: the CPU's."""
    version, architecture = native.find_toolkit().version, ARCHITECTURES[name]
    place_environment = replace(
        environment,
        device=f"{name} (compiled for, not run)",
        toolchain=f"{version}, {environment.toolchain}",
        facts={"cuda": version, "product whose size host code is told": architecture.product},
        allocation="",
    )
    return Place(
        target,
        "compile",
        server,
        place_environment,
        name,
        "traced",
        _answers(architecture, architecture.describe_device()),
        note=TRACER,
    )


def _answers(architecture: Architecture, device: dict[str, Any]) -> dict[str, Any]:
    return {
        "device": device,
        "target": [architecture.backend, architecture.compiler_arch, architecture.warp_size],
    }
