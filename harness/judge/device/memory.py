"""How much memory there is, for this machine or the control group that this process lives in."""

from __future__ import annotations

import contextlib
import ctypes
import os
from pathlib import Path

TASK_SHARE = 0.75  # of the memory, for a task or a candidate with all its processes
_GROUP = Path("/sys/fs/cgroup")


def total() -> int:
    """Bytes."""
    return min(_meminfo("MemTotal"), _limit() or 1 << 62)


def available() -> int:
    """Bytes that can still be had."""
    limit = _limit()
    left = (
        limit - (_number("memory.current") or _number("memory/memory.usage_in_bytes"))
        if limit
        else 1 << 62
    )
    return max(0, min(_meminfo("MemAvailable"), left))


def allowed() -> int:
    """Bytes that a task or a candidate may hold, with all its processes together. KEVOLVE_TASK_GIB
    sets less, or more."""
    asked = os.environ.get("KEVOLVE_TASK_GIB", "")
    return int(float(asked) * 2**30) if asked else int(TASK_SHARE * total())


def trim() -> None:
    """Return what this process has freed. Its allocator keeps freed memory (see
    environment.ALLOCATION)."""
    ctypes.CDLL(None).malloc_trim(0)


def _limit() -> int:
    """Of the control group, 0 without one."""
    return _number("memory.max") or _number("memory/memory.limit_in_bytes")


def _number(name: str) -> int:
    with contextlib.suppress(OSError, ValueError):  # not mounted, or "max"
        return int((_GROUP / name).read_text())
    return 0


def _meminfo(field: str) -> int:
    with open("/proc/meminfo") as file:
        return next(int(line.split()[1]) << 10 for line in file if line.startswith(f"{field}:"))
