"""How a worker is, from outside: what its watcher reports, and what the kernel counts of its
processes and their memory. Nothing of it is the worker's own word."""

from __future__ import annotations

import contextlib
import os
import select
import time

from .freezing import descendants, read

FORKED_S = 1.0  # a process that is not there by then has ended


class PeakMemory:
    """The most that all processes below a root have held since this was made; where the kernel
    lets nobody begin anew (/proc/PID/clear_refs, proc_pid_clear_refs(5)), what they hold when it is
    read."""

    def __init__(self, root: int) -> None:
        self._root = root
        self._reset_pids = {pid for pid in descendants(root) if _forget_peak(pid)}

    def most(self, lent: int) -> int:
        """Without what is mapped from files on a disk. lent: bytes of the judge's own memory files
        that are mapped there, and that are taken off as far as they are."""
        return sum(self._of(pid, lent) for pid in descendants(self._root))

    def _of(self, pid: int, lent: int) -> int:
        sizes = _sizes(pid)
        most = sizes.get("VmHWM" if pid in self._reset_pids else "VmRSS", 0)
        return max(0, most - sizes.get("RssFile", 0) - min(lent, sizes.get("RssShmem", 0)))


def own_bytes(root: int) -> int:
    """What all processes below a root hold for themselves now; waits for the first, which may be
    about to be forked."""
    deadline = time.monotonic() + FORKED_S
    while not (pids := descendants(root)) and time.monotonic() < deadline:
        time.sleep(0.001)
    return sum(_sizes(pid).get("RssAnon", 0) for pid in pids)


def is_readable(fd: int, seconds: float) -> bool:
    """Whether there is something to read, or an end, before the time is over. Unlike select() for
    any descriptor: input sets are many."""
    poller = select.poll()
    poller.register(fd, select.POLLIN | select.POLLHUP)
    return bool(poller.poll(seconds * 1000))


def read_first_line(fd: int) -> str:
    """Read the first line that the watcher wrote, as far as it has come within 20 s."""
    data = b""
    while not data.endswith(b"\n") and is_readable(fd, 20):
        part = os.read(fd, 1)
        if not part:
            break
        data += part
    return data.decode(errors="replace").strip()


def read_status(fd: int, seconds: float, *, to_end: bool = False) -> dict[str, list[int]]:
    """What `watcher.watch` reported: {"M": [bytes]}, {"S": [wait status, peak bytes]}."""
    data, deadline = b"", time.monotonic() + seconds
    while time.monotonic() < deadline:
        if not is_readable(fd, max(0.0, deadline - time.monotonic())):
            break
        part = os.read(fd, 4096)
        data += part
        if not part or (b"S " in data and not to_end):
            break
    lines = [line.split() for line in data.decode(errors="replace").splitlines()]
    return {words[0]: [int(w) for w in words[1:]] for words in lines if words and words[0] in "MS"}


def count_oom_kills() -> int:
    """How many processes the kernel has killed for want of memory since it started."""
    with contextlib.suppress(OSError, StopIteration), open("/proc/vmstat") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("oom_kill "))
    return 0


def _forget_peak(pid: int) -> bool:
    """Let the kernel count anew from what the process holds now. Whether it does."""
    with contextlib.suppress(OSError):
        fd = os.open(f"/proc/{pid}/clear_refs", os.O_WRONLY | os.O_CLOEXEC)
        try:
            return os.write(fd, b"5") == 1
        finally:
            os.close(fd)
    return False


def _sizes(pid: int) -> dict[str, int]:
    """Bytes by name, of the fields of /proc/PID/status that are sizes; {} for one that is gone."""
    rows = (line.split() for line in read(f"/proc/{pid}/status").splitlines())
    return {
        row[0].decode().rstrip(":"): int(row[1]) << 10
        for row in rows
        if len(row) == 3 and row[2] == b"kB"
    }
