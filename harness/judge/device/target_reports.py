"""What this machine can do for each target family: which languages it evaluates or compiles, and
why not others."""

from __future__ import annotations

from collections.abc import Iterator

from ... import native
from ...languages import LANGUAGES
from ...targets import cuda, nvml
from ...types import Mode, Target, TargetReport
from ..exchange import device_link
from ..processes import runtimes
from ..processes.compilers import compiler_version


def report_targets() -> Iterator[TargetReport]:
    """Report every target family, one after the other: those of Triton, and a GPU that is here,
    take the time that Triton needs to be imported."""
    compiler = native.find_compiler()
    reason = (
        f"C++ by {compiler_version(compiler)}"
        if compiler
        else "no C++ compiler: install g++ (Debian: apt-get install g++)"
    )
    profilers = ("counters of page faults and switches", "static instruction mix (objdump)")
    yield TargetReport(
        "cpu",
        "execute" if compiler else "absent",
        reason,
        ("cpp",) if compiler else (),
        profilers,
    )
    yield _report_cuda()
    yield TargetReport(
        "hip",
        "absent",
        "kernels do not run on AMD GPUs in this version; hip:gfx942 and others are compiled for",
    )
    yield from runtimes.reports(architecture_here())


def find_report(target: Target, language: str) -> TargetReport | None:
    """Find what this machine can do with a language for a target; None for a pair that nobody
    offers."""
    return next(
        (t for t in report_targets() if t.target == str(target) and language in t.languages),
        None,
    )


def architecture_here() -> str:
    """The architecture of the GPU that is here, "" without one."""
    return "" if cuda.missing() else cuda.facts()["architecture"]


def device_compilers() -> dict[str, bool]:
    """Languages of GPU kernels, and whether this machine compiles them."""
    return {
        "triton": not runtimes.triton_support().problem,
        "cuda": bool(native.find_toolkit().version),
    }


def _report_cuda() -> TargetReport:
    if reason := cuda.missing():
        return TargetReport("cuda", "absent", reason)
    compilers = device_compilers()
    languages = tuple(
        n for n, language in LANGUAGES.items() if cuda.NAME in language.targets and compilers.get(n)
    )
    mode: Mode = "execute" if languages else "absent"
    others = len(nvml.gpus()) - 1
    more = (
        f"; {others} more GPU{'s' * (others > 1)} here, each with a judge of its own"
        if others > 0
        else ""
    )
    lacking = "" if compilers["cuda"] else f"; no CUDA C++: {native.MISSING}"
    obstacle = device_link.sharing_obstacle()
    memory = (
        f"through host memory, since {obstacle}" if obstacle else "in memory shared with the judge"
    )
    return TargetReport(
        "cuda",
        mode,
        f"{cuda.device_key()}{more}{lacking}; data {memory}",
        languages,
        ("device events",),
    )
