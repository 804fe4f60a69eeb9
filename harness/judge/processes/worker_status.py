"""The status of a worker from outside: its watcher's report, and the kernel's figures about its
processes and their memory. Nothing comes from the worker itself."""

from __future__ import annotations

import contextlib
import os
import select
import time

from .freezing import descendants, read

FORKED_S = 1.0  # a process that does not exist by then has ended


class PeakMemory:
    """The peak memory of all processes below a root since this object was created. Where the kernel
    does not allow resetting the peak (/proc/PID/clear_refs, proc_pid_clear_refs(5)), their memory
    at the time of reading."""

    def __init__(self, root: int) -> None:
        self._root = root
        self._reset_pids = {pid for pid in descendants(root) if _forget_peak(pid)}

    def most(self, lent: int) -> int:
        """Return the peak without mapped files on disk. lent: bytes of the judge's own memory files
        mapped there, which are subtracted as far as they are resident."""
        return sum(self._of(pid, lent) for pid in descendants(self._root))

    def _of(self, pid: int, lent: int) -> int:
        sizes = _sizes(pid)
        most = sizes.get("VmHWM" if pid in self._reset_pids else "VmRSS", 0)
        return max(0, most - sizes.get("RssFile", 0) - min(lent, sizes.get("RssShmem", 0)))


def own_bytes(root: int) -> int:
    """Return the present private memory of all processes below a root; waits for the first, which
    may not be forked yet."""
    deadline = time.monotonic() + FORKED_S
    while not (pids := descendants(root)) and time.monotonic() < deadline:
        time.sleep(0.001)
    return sum(_sizes(pid).get("RssAnon", 0) for pid in pids)


def is_readable(fd: int, seconds: float) -> bool:
    """Return whether there is something to read, or an end, within the time. Works for any
    descriptor, unlike select(): input sets are many."""
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
    """Read the report of `watcher.watch`: {"M": [bytes]}, {"S": [wait status, peak bytes]}."""
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
    """Return how many processes the kernel has killed for lack of memory since it started."""
    with contextlib.suppress(OSError, StopIteration), open("/proc/vmstat") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("oom_kill "))
    return 0


def _forget_peak(pid: int) -> bool:
    """Reset a process's peak memory to its present memory. Returns whether the kernel allows it."""
    with contextlib.suppress(OSError):
        fd = os.open(f"/proc/{pid}/clear_refs", os.O_WRONLY | os.O_CLOEXEC)
        try:
            return os.write(fd, b"5") == 1
        finally:
            os.close(fd)
    return False


def _sizes(pid: int) -> dict[str, int]:
    """Return the sizes in /proc/PID/status, in bytes by field; {} for a process that is gone."""
    rows = (line.split() for line in read(f"/proc/{pid}/status").splitlines())
    return {
        row[0].decode().rstrip(":"): int(row[1]) << 10
        for row in rows
        if len(row) == 3 and row[2] == b"kB"
    }
