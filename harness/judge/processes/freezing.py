"""Stops processes during measurements. A candidate and everything it started are stopped while the
other side of a comparison runs: a helper process or thread that uses the processor, the caches or
the memory bandwidth would otherwise slow the baseline down. The judge itself leaves the timing
core."""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence

from ..errors import WorkerTimeout

PASS_S = 0.0005
# passes without a pause: a process on another core stops within one or two, and a pause may take
# milliseconds
AT_ONCE = 8
# some system calls heed no signal until they are done: mapping 4 GiB took 0.9 s
STOP_S = 5.0
Turn = Callable[[int], contextlib.AbstractContextManager[None]]
Blame = Callable[[int], contextlib.AbstractContextManager[None]]


class HeldProcesses:
    """Processes of which one runs at a time: everything below a root stands still, from the first
    `stop` on, except in the turn of that root."""

    def __init__(self) -> None:
        self._stopped: dict[int, set[int]] = {}

    def __contains__(self, root: int) -> bool:
        return root in self._stopped

    def stop(self, root: int) -> None:
        """Stop everything below a root. Raises WorkerTimeout."""
        stop(root, self._stopped.setdefault(root, set()))

    @contextlib.contextmanager
    def turn(self, root: int) -> Iterator[None]:
        """Let what is below a root run, and stop it again, with all that it has started. Raises
        WorkerTimeout."""
        go_on(self._stopped[root])
        try:
            yield
        finally:
            self.stop(root)

    def let_go(self, root: int) -> None:
        """Let what is below a root run from now on."""
        go_on(self._stopped.pop(root, set()))


@contextlib.contextmanager
def turns(
    *roots: int,
    held: HeldProcesses | None = None,
    blame: Blame = lambda root: contextlib.nullcontext(),
) -> Iterator[Turn]:
    """Stop everything below the roots except during the turn of a root. held: has stopped some of
    them before, which stay so afterwards. blame: attributes errors of stopping a root. Raises
    WorkerTimeout."""
    all_turns = HeldProcesses() if held is None else held
    new = [root for root in roots if root not in all_turns]
    try:
        for root in new:
            with blame(root):
                all_turns.stop(root)
        yield all_turns.turn
    finally:
        for root in new:
            all_turns.let_go(root)


def stop(root: int, stopped: set[int]) -> None:
    """Stop processes below a root until none runs; their ids are added to `stopped`. Raises
    WorkerTimeout, and kills them, if some run on: what is measured next would share the machine
    with them."""
    deadline = time.monotonic() + STOP_S
    for number in itertools.count():
        if number > AT_ONCE:
            time.sleep(PASS_S)
        running = [pid for pid in descendants(root) if _runs(pid)]
        if not running:
            break
        late = number > AT_ONCE and time.monotonic() > deadline
        for pid in running:
            stopped.add(pid)
            _signal(pid, signal.SIGKILL if late else signal.SIGSTOP)
        if late:
            raise WorkerTimeout(
                f"a process that was told to stop was still running after {STOP_S:.0f} s, as in a "
                "system call that heeds no signals, or because it starts processes faster than "
                "they are stopped"
            )


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
