"""Stillness beside what is measured. A candidate is stopped with everything it started while the other side of a comparison runs: a
helper process or thread that burns the processor, the caches or the memory's bandwidth would otherwise slow the baseline. And
the judge itself keeps off the timing core."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator, Sequence

PASSES, PASS_S = 50, 0.0005  # a process that forks faster than it is found is bounded by its limit on processes


@contextlib.contextmanager
def frozen(root: int) -> Iterator[None]:
    """No process below `root` runs inside the `with` block; those that have ended meanwhile are left out."""
    stopped: set[int] = set()
    try:
        for number in range(PASSES):
            if number > 1:  # a process on another core takes a moment to stop
                time.sleep(PASS_S)
            running = [pid for pid in descendants(root) if _state(pid) not in "TtZX"]
            if not running:
                break
            for pid in running:
                stopped.add(pid)
                _signal(pid, signal.SIGSTOP)
        yield
    finally:
        for pid in stopped:
            _signal(pid, signal.SIGCONT)


@contextlib.contextmanager
def aside(cpus: Sequence[int]) -> Iterator[None]:
    """This thread leaves the cores on which something is timed, where there are others."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, before - set(cpus) or before)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def descendants(root: int) -> list[int]:
    """Process ids below `root`, nearest first."""
    found, new = [], [root]
    while new:
        new = [child for pid in new for child in _children(pid)]
        found += new
    return found


def parent_of(pid: int) -> int:
    """The parent's process id, 0 for a process that is gone."""
    fields = _stat(pid)
    return int(fields[1]) if fields else 0


def _children(pid: int) -> list[int]:
    """Of all its threads."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/children") as file:
                found += map(int, file.read().split())
    return found


def _state(pid: int) -> str:
    fields = _stat(pid)
    return fields[0] if fields else "X"


def _stat(pid: int) -> list[str]:
    """The fields of /proc/PID/stat after the name, which may hold anything; [] for a process that is gone."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()
    except OSError:
        return []


def _signal(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
