"""How the processes of a judge are started: their environment variables, and Python in isolated
mode on this evaluator's own files."""

from __future__ import annotations

import hashlib
import os
import sys
from pathlib import Path

# Both sides of every comparison run under this allocator policy: freed memory stays in the process,
# so that a call does not pay for fresh pages. mallopt(3) names the variables; measured, it removes
# 32,772 page faults a call for 2 x 32 MiB outputs.
ALLOCATION = {
    "MALLOC_MMAP_THRESHOLD_": "4000000000",
    "MALLOC_TRIM_THRESHOLD_": "8000000000",
    "MALLOC_TOP_PAD_": "268435456",
}

# The judge compares large tensors: the same policy makes that several times faster. It spreads them
# over threads of its own (distance.py), and no thread that waits may spin beside what is timed.
JUDGE_ENVIRONMENT = {**ALLOCATION, "OMP_WAIT_POLICY": "PASSIVE", "OMP_NUM_THREADS": "1"}


# Which GPUs a process sees: the judge and its workers must mean the same one by "the first".
DEVICE_CHOICE = ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER")


def scrubbed_environment(*, threads: int = 1, allocation: bool = True) -> dict[str, str]:
    """The whole environment of a worker: nothing of the user's leaks in but the choice of
    devices."""
    values = {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "HOME": "/tmp",
        "TMPDIR": "/tmp",
        "LANG": "C.UTF-8",
        "OMP_NUM_THREADS": str(threads),
        "OMP_WAIT_POLICY": "PASSIVE",
        "OPENBLAS_NUM_THREADS": "1",
        "MKL_NUM_THREADS": str(threads),
        "TORCHINDUCTOR_COMPILE_THREADS": "1",
    }
    shown = {name: os.environ[name] for name in DEVICE_CHOICE if name in os.environ}
    return {**values, **shown, **(ALLOCATION if allocation else {})}


def harness_root() -> str:
    """The folder that holds this `harness` and nothing else that could be imported by accident."""
    return str(Path(__file__).resolve().parents[2])


def python_command(module: str, function: str, *arguments: object) -> list[str]:
    """A Python command that runs a function of ours in isolated mode, whatever the current folder
    holds."""
    call = f"{function}({', '.join(map(repr, arguments))})"
    code = (
        f"import sys; sys.path.insert(0, {harness_root()!r}); from {module} import "
        f"{function.split('.')[0]}; {call}"
    )
    return [sys.executable, "-I", "-c", code]


def evaluator_digest(folder: Path) -> str:
    """SHA-256 over names and texts of the evaluator's own files. folder: a `harness`. It is part of
    every evaluation's key: another evaluator may judge differently."""
    digest = hashlib.sha256()
    for file in sorted(folder.rglob("*.py")):
        digest.update(f"{file.relative_to(folder)}\0".encode() + file.read_bytes())
    return digest.hexdigest()
