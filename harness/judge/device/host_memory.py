"""The memory of this machine, or of the control group of this process."""

from __future__ import annotations

import contextlib
import ctypes
from pathlib import Path

from ...settings import task_bytes

TASK_SHARE = 0.75  # share of the memory for a task or a candidate with all its processes
_GROUP = Path("/sys/fs/cgroup")


def total() -> int:
    """Return the total memory in bytes."""
    return min(_meminfo("MemTotal"), _limit() or 1 << 62)


def available() -> int:
    """Return the bytes that are still available."""
    limit = _limit()
    free = (
        limit - (_number("memory.current") or _number("memory/memory.usage_in_bytes"))
        if limit
        else 1 << 62
    )
    return max(0, min(_meminfo("MemAvailable"), free))


def limit_bytes() -> int:
    """Return the most bytes that all processes of a task or candidate may hold together.
    KEVOLVE_TASK_GIB overrides the default."""
    limit = task_bytes()
    return int(TASK_SHARE * total()) if limit is None else limit


def trim() -> None:
    """Give this process's freed memory back to the system; its allocator keeps it otherwise (see
    process_environment.ALLOCATION)."""
    ctypes.CDLL(None).malloc_trim(0)


def _limit() -> int:
    """Return the limit of the control group, 0 without one."""
    return _number("memory.max") or _number("memory/memory.limit_in_bytes")


def _number(name: str) -> int:
    with contextlib.suppress(OSError, ValueError):  # not mounted, or "max"
        return int((_GROUP / name).read_text())
    return 0


def _meminfo(field: str) -> int:
    with open("/proc/meminfo") as file:
        return next(int(line.split()[1]) << 10 for line in file if line.startswith(f"{field}:"))
