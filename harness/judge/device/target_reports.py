"""Reports on what this machine can do for each target: the languages that it evaluates or compiles,
and the reasons where it cannot."""

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
    """Yield a report for every target. Those for Triton, and for a GPU of this machine, wait until
    Triton is imported."""
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
        "this version does not run kernels on AMD GPUs; it can compile for hip:gfx942 and others",
    )
    yield from runtimes.reports(architecture_here())


def find_report(target: Target, language: str) -> TargetReport | None:
    """Return the report on a language for a target; None where the pair is not supported."""
    return next(
        (t for t in report_targets() if t.target == str(target) and language in t.languages),
        None,
    )


def architecture_here() -> str:
    """Return the architecture of this machine's GPU, "" without one."""
    return "" if cuda.missing() else cuda.facts()["architecture"]


def device_compilers() -> dict[str, bool]:
    """Return whether this machine can compile each language of GPU kernels."""
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
    more = f"; {others} more GPU{'s' * (others > 1)}, each with its own judge" if others > 0 else ""
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
