"""The start of a judge's processes: their environment variables, and Python in isolated mode on
this evaluator's own files."""

from __future__ import annotations

import hashlib
import os
import random
import sys
from pathlib import Path

# Both sides of every comparison run under this allocator policy: freed memory stays in the process,
# so that a call does not pay for fresh pages. The variables are described in mallopt(3). Measured,
# the policy removes 32,772 page faults per call with 2 x 32 MiB outputs.
ALLOCATION = {
    "MALLOC_MMAP_THRESHOLD_": "4000000000",
    "MALLOC_TRIM_THRESHOLD_": "8000000000",
    "MALLOC_TOP_PAD_": "268435456",
}

# The judge compares large tensors, which the same policy makes several times faster. It distributes
# them over its own threads (distance.py), and a waiting thread must not spin during timing.
JUDGE_ENVIRONMENT = {**ALLOCATION, "OMP_WAIT_POLICY": "PASSIVE", "OMP_NUM_THREADS": "1"}


# Candidates may order builds whose flags come from a set: its order must be the same in all
# processes of an evaluation.
HASH_SEED = str(random.SystemRandom().randrange(1, 1 << 32))

# The GPUs that a process sees: judge and workers must number them in the same way.
DEVICE_CHOICE = ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER")


def scrubbed_environment(*, threads: int = 1, allocation: bool = True) -> dict[str, str]:
    """Return the whole environment of a worker. Of the user's variables it contains only the choice
    of devices."""
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
        "PYTHONHASHSEED": HASH_SEED,
    }
    shown = {name: os.environ[name] for name in DEVICE_CHOICE if name in os.environ}
    return {**values, **shown, **(ALLOCATION if allocation else {})}


def harness_root() -> str:
    """Return the folder that contains this `harness`."""
    return str(Path(__file__).resolve().parents[2])


def python_command(
    module: str, function: str, *arguments: object, scrubbed: bool = False
) -> list[str]:
    """Return a command that runs one of the evaluator's functions in Python's isolated mode,
    independently of the current folder. scrubbed: it gets a scrubbed_environment, whose variables
    for Python count."""
    call = f"{function}({', '.join(map(repr, arguments))})"
    code = (
        f"import sys; sys.path[:] = [{harness_root()!r}, *filter(None, sys.path)]; "
        f"from {module} import {function.split('.')[0]}; {call}"
    )
    return [sys.executable, "-s" if scrubbed else "-I", "-c", code]


def evaluator_digest(folder: Path) -> str:
    """Return the SHA-256 over names and texts of the evaluator's own files. folder: a `harness`.
    The digest is part of every evaluation's key, since another evaluator may judge differently."""
    digest = hashlib.sha256()
    for file in sorted(folder.rglob("*.py")):
        digest.update(f"{file.relative_to(folder)}\0".encode() + file.read_bytes())
    return digest.hexdigest()
