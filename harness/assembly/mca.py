"""llvm-mca: writes its input from a listing and parses its output."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence

from .listing import Instruction
from .operations import InstructionSet
from .table import Estimate

NAMES = ("llvm-mca", *(f"llvm-mca-{version}" for version in range(24, 12, -1)))
SECONDS = 10.0
SIMULATED = 100_000  # instructions in all regions together
_REGION = re.compile(r"^\[\d+\] Code Region - (\d+)$", re.MULTILINE)
_FIGURES = ("Iterations", "Total Cycles", "Block RThroughput")
_NUMBER = r"\d+(?:\.\d+)?"
_FIGURE = re.compile(rf"^({'|'.join(_FIGURES)}):\s+({_NUMBER})$", re.MULTILINE)
_PORT = re.compile(r"^\[(\d+(?:\.\d+)?)\]\s+- (\S+)$", re.MULTILINE)
_PRESSURE = re.compile(r"^Resource pressure per iteration:\n([^\n]*)\n([^\n]*)$", re.MULTILINE)


def find() -> str:
    """Return the path of llvm-mca, "" where it is not installed."""
    return next((path for path in map(shutil.which, NAMES) if path), "")


def estimates(
    program: str, codes: Sequence[Sequence[Instruction]], architecture: InstructionSet
) -> list[Estimate]:
    """Estimate each piece of code. Raises ValueError with the reason where llvm-mca fails."""
    size = sum(map(len, codes))
    if not size:
        return []
    iterations = max(4, min(100, SIMULATED // size))
    command = [program, "-mcpu=native", f"-iterations={iterations}", "-instruction-info=false", "-"]
    text = "".join(
        f"# LLVM-MCA-BEGIN {number}\n{_assembly(code, architecture)}# LLVM-MCA-END {number}\n"
        for number, code in enumerate(codes)
    )
    try:
        process = subprocess.run(
            command, input=text.encode(), capture_output=True, timeout=SECONDS, check=False
        )
        version = subprocess.run(
            [program, "--version"],
            capture_output=True,
            timeout=SECONDS,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ValueError(f"llvm-mca did not answer: {type(error).__name__}") from error
    if process.returncode:
        raise ValueError(f"llvm-mca failed: {_reason(process.stderr.decode(errors='replace'))}")
    by = _name(version.stdout.decode(errors="replace"))
    parts = _REGION.split(process.stdout.decode(errors="replace"))
    bodies = {int(number): body for number, body in zip(parts[1::2], parts[2::2], strict=True)}
    if len(codes) == 1 and not bodies:
        bodies = {0: parts[0]}
    if set(bodies) != set(range(len(codes))):
        raise ValueError("llvm-mca did not answer for every loop")
    return [_estimate(bodies[number], by) for number in range(len(codes))]


def _reason(said: str) -> str:
    """The first error, and the instruction that it is about where a note names it."""
    lines = said.splitlines()
    error = next((line.strip() for line in lines if "error" in line), "without a message")
    about = next((line.split("instruction:")[1] for line in lines if "instruction:" in line), "")
    named = " ".join(about.split())
    return error[:160] + (f" ({named[:80]})" if named else "")


def _name(version: str) -> str:
    number, core = re.search(r"version (\S+)", version), re.search(r"Host CPU: (\S+)", version)
    return (
        f"llvm-mca {number.group(1) if number else ''}, "
        f"{core.group(1) if core else 'this processor'}"
    )


def _assembly(code: Sequence[Instruction], architecture: InstructionSet) -> str:
    """Write the code as llvm-mca's input. All branch targets become one label: llvm-mca ignores
    where a branch goes."""
    lines = []
    for i in code:
        what = architecture.kind(i.name)
        if what == "nothing" and not i.name.startswith("prefetch"):
            continue
        operands = re.sub(r"\s*<[^>]*>", "", i.operands)
        if what in ("jump", "branch", "call"):
            operands = re.sub(r"(?:0x)?\b[0-9a-f]+$", ".Lout", operands)
        lines.append(f"\t{i.name} {operands}\n")
    return "".join(lines)


def _estimate(report: str, by: str) -> Estimate:
    figures = {name: float(value) for name, value in _FIGURE.findall(report)}
    row = _PRESSURE.search(report)
    if row is None or len(figures) < len(_FIGURES) or not figures["Iterations"]:
        raise ValueError("the output of llvm-mca cannot be parsed")
    ports = dict(_PORT.findall(report))
    used = zip(re.findall(r"\[([\d.]+)\]", row.group(1)), row.group(2).split(), strict=False)
    pressure: dict[str, float] = {}
    for number, value in used:
        if re.fullmatch(_NUMBER, value) and float(value) > 0:
            name = ports.get(number, number)
            # of several units with one name, the busiest is the limit
            pressure[name] = max(pressure.get(name, 0.0), float(value))
    cycles, bound = figures["Total Cycles"] / figures["Iterations"], figures["Block RThroughput"]
    busiest = max(pressure, key=lambda name: pressure[name], default="")
    chained = cycles > 1.3 * bound + 1.0
    limit = (
        "a chain of dependencies from one iteration to the next"
        if chained
        else f"port {busiest}"
        if busiest
        else ""
    )
    if not chained and busiest and pressure[busiest] < 0.8 * bound:
        limit = "the instructions that can be issued"
    return Estimate(cycles, limit, pressure, by)
