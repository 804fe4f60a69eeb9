"""The user's settings for the evaluator: environment variables, read at each use.

The two settings of `harness.native` are read in `native/building.py` (KEVOLVE_NATIVE_CACHE) and
`native/toolkit.py` (KEVOLVE_NVRTC): exports copy that package, so it imports nothing else of the
harness. Workers see none of these variables.
"""

from __future__ import annotations

import os

TIMING_EFFORT = "KEVOLVE_TIMING_EFFORT"
TASK_SECONDS = "KEVOLVE_TASK_SECONDS"
TASK_GIB = "KEVOLVE_TASK_GIB"
TASK_ISOLATION = "KEVOLVE_TASK_ISOLATION"
DEVICE_MEMORY = "KEVOLVE_DEVICE_MEMORY"
NVML = "KEVOLVE_NVML"
TIMING_CORE = "KEVOLVE_TIMING_CORE"
NATIVE_CACHE = "KEVOLVE_NATIVE_CACHE"
NVRTC = "KEVOLVE_NVRTC"
# the settings that decide whether a task can be opened
OPENING = (TASK_SECONDS, TASK_GIB)


def timing_effort() -> float:
    """Return the factor for the number of timed pairs and for the time spent on a verdict."""
    return _number(TIMING_EFFORT, 1.0)


def task_seconds() -> float:
    """Return the time limit of each request to a task's worker, in seconds."""
    return _number(TASK_SECONDS, 120.0)


def task_bytes() -> int | None:
    """Return the most bytes that all processes of a task or candidate may hold together; None for
    the evaluator's default."""
    gib = _number(TASK_GIB, 0.0)
    return int(gib * 2**30) if os.environ.get(TASK_GIB) else None


def task_isolation() -> str:
    """Return the isolation level of tasks, "" for the strongest available."""
    return os.environ.get(TASK_ISOLATION, "")


def through_host_memory() -> bool:
    """Return whether device data are copied through host memory instead of being shared."""
    return os.environ.get(DEVICE_MEMORY, "") == "host"


def nvml_library() -> str:
    """Return the name or path of NVIDIA's management library."""
    return os.environ.get(NVML, "libnvidia-ml.so.1")


def timing_core() -> int | None:
    """Return the core that a GPU's timed processes are pinned to, counted backwards from the last
    core but one; None to count by the GPU's index. Judges that share a machine need one each."""
    return int(_number(TIMING_CORE, 0.0)) if os.environ.get(TIMING_CORE) else None


def opening() -> dict[str, str]:
    """Return the values of the variables in OPENING, "" where one is not set."""
    return {name: os.environ.get(name, "") for name in OPENING}


def _number(name: str, default: float) -> float:
    """Read a number. Raises ValueError naming the variable."""
    text = os.environ.get(name) or str(default)
    try:
        return float(text)
    except ValueError:
        raise ValueError(
            f"{name} is {text!r:.80}, which is not a number; unset it for {default:g}"
        ) from None
