"""Stops processes during measurements. A candidate and everything it started are stopped while the
other side of a comparison runs: a helper process or thread that uses the processor, the caches or
the memory bandwidth would otherwise slow the baseline down. The judge itself leaves the timing
core."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence

# a process that forks faster than it is found is limited by its process limit
PASSES, PASS_S = 50, 0.0005
# passes without a pause: a process on another core stops within one or two, and a pause may take
# milliseconds
AT_ONCE = 8
Turn = Callable[[int], contextlib.AbstractContextManager[None]]


@contextlib.contextmanager
def turns(*roots: int) -> Iterator[Turn]:
    """Stop everything below the roots except during the turn of a root. After its turn everything
    below it is stopped again, including what it has started."""
    stopped: dict[int, set[int]] = {root: set() for root in roots}

    @contextlib.contextmanager
    def turn(root: int) -> Iterator[None]:
        go_on(stopped[root])
        try:
            yield
        finally:
            stop(root, stopped[root])

    try:
        for root in roots:
            stop(root, stopped[root])
        yield turn
    finally:
        for pids in stopped.values():
            go_on(pids)


def stop(root: int, stopped: set[int]) -> None:
    """Stop processes below a root until none runs; their ids are added to `stopped`."""
    for number in range(PASSES):
        if number > AT_ONCE:
            time.sleep(PASS_S)
        running = [pid for pid in descendants(root) if _runs(pid)]
        if not running:
            break
        for pid in running:
            stopped.add(pid)
            _signal(pid, signal.SIGSTOP)


def go_on(stopped: set[int]) -> None:
    """Resume processes, except those that have ended meanwhile, and empty the set."""
    while stopped:
        _signal(stopped.pop(), signal.SIGCONT)


@contextlib.contextmanager
def aside(cpus: Sequence[int]) -> Iterator[None]:
    """Keep this thread off the timing cores inside the block, if there are others."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, before - set(cpus) or before)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def descendants(root: int) -> list[int]:
    """Return the process ids below `root`, nearest first."""
    pids, new = [], [root]
    while new:
        new = [child for pid in new for child in children(pid)]
        pids += new
    return pids


def parent_of(pid: int) -> int:
    """Return the parent's process id, 0 for a process that is gone."""
    fields = fields_of(pid)
    return int(fields[1]) if fields else 0


def children(pid: int) -> list[int]:
    """Return the child processes of all threads of a process."""
    pids: list[int] = []
    with contextlib.suppress(OSError):
        for task in os.listdir(f"/proc/{pid}/task"):
            pids += map(int, read(f"/proc/{pid}/task/{task}/children").split())
    return pids


def is_running(pid: int) -> bool:
    """Return whether a thread of a process runs, or would if it had a core."""
    return any(state == "R" for state in _threads(pid))


def _runs(pid: int) -> bool:
    """Return whether a process is neither stopped nor gone. Its first thread may have stopped or
    ended while others run on."""
    return any(state not in "TtZX" for state in _threads(pid))


def _threads(pid: int) -> list[str]:
    """Return the state of each thread; [] for a process that is gone."""
    with contextlib.suppress(OSError):
        return [_state(f"/proc/{pid}/task/{task}/stat") for task in os.listdir(f"/proc/{pid}/task")]
    return []


def is_gone(pid: int) -> bool:
    """Return whether a process, or its first thread, has ended."""
    return _state(f"/proc/{pid}/stat") in "ZX"


def _state(path: str) -> str:
    fields = read(path).rpartition(b")")[2].split()
    return fields[0].decode() if fields else "X"


def fields_of(pid: int) -> list[str]:
    """Return the fields of /proc/PID/stat after the name, which may contain any characters; [] for
    a process that is gone."""
    return read(f"/proc/{pid}/stat").rpartition(b")")[2].decode().split()


def read(path: str) -> bytes:
    """Read a file of /proc without the overhead of Python's files, since some are read between any
    two bursts. b"" for a file that is gone."""
    with contextlib.suppress(OSError):
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            return os.read(fd, 1 << 16)
        finally:
            os.close(fd)
    return b""


def _signal(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
