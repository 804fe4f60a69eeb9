"""What a user may set for the evaluator: environment variables, read when they are asked for.

The two of `harness.native`, which exports copy and which so imports nothing of the rest, stand in
`native/building.py` (KEVOLVE_NATIVE_CACHE) and `native/toolkit.py` (KEVOLVE_NVRTC). Workers see
none of these.
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
# that decide whether a task can be opened
OPENING = (TASK_SECONDS, TASK_GIB)


def timing_effort() -> float:
    """A half measures half as many pairs, and waits half as long for a verdict."""
    return _number(TIMING_EFFORT, 1.0)


def task_seconds() -> float:
    """For each thing that a task is asked to do."""
    return _number(TASK_SECONDS, 120.0)


def task_bytes() -> int | None:
    """That a task or a candidate may hold, with all its processes together; None for the
    evaluator's own choice."""
    gib = _number(TASK_GIB, 0.0)
    return int(gib * 2**30) if os.environ.get(TASK_GIB) else None


def task_isolation() -> str:
    """The isolation level of tasks, "" for the strongest."""
    return os.environ.get(TASK_ISOLATION, "")


def through_host_memory() -> bool:
    """Whether data of a device pass through host memory although it could be shared."""
    return os.environ.get(DEVICE_MEMORY, "") == "host"


def nvml_library() -> str:
    """NVIDIA's management library, by name or path."""
    return os.environ.get(NVML, "libnvidia-ml.so.1")


def timing_core() -> int | None:
    """Which core a GPU's timed processes are pinned to, counted from the last but one backwards;
    None for that of the GPU's index. Set for each of several judges that share a machine."""
    return int(_number(TIMING_CORE, 0.0)) if os.environ.get(TIMING_CORE) else None


def opening() -> dict[str, str]:
    """What the variables of OPENING hold, "" where one is not set."""
    return {name: os.environ.get(name, "") for name in OPENING}


def _number(name: str, default: float) -> float:
    """Raises ValueError naming the variable."""
    text = os.environ.get(name) or str(default)
    try:
        return float(text)
    except ValueError:
        raise ValueError(
            f"{name} is {text!r:.80}, which is no number; unset it for {default:g}"
        ) from None
