"""What the processes of a worker hold of the machine's memory, as the kernel counts it: nothing of
it is the worker's own word."""

from __future__ import annotations

import contextlib
import os
import time

from .freezing import descendants, read

FORKED_S = 1.0  # a process that is not there by then has ended


class PeakMemory:
    """The most that all processes below a root have held since this was made; where the kernel
    lets nobody begin anew (/proc/PID/clear_refs, proc_pid_clear_refs(5)), what they hold when it is
    read."""

    def __init__(self, root: int) -> None:
        self._root = root
        self._known = {pid for pid in descendants(root) if _forget_peak(pid)}

    def most(self, lent: int) -> int:
        """Without what is mapped from files on a disk. lent: bytes of the judge's own memory files
        that are mapped there, and that are taken off as far as they are."""
        return sum(self._of(pid, lent) for pid in descendants(self._root))

    def _of(self, pid: int, lent: int) -> int:
        sizes = _sizes(pid)
        most = sizes.get("VmHWM" if pid in self._known else "VmRSS", 0)
        return max(0, most - sizes.get("RssFile", 0) - min(lent, sizes.get("RssShmem", 0)))


def own_bytes(root: int) -> int:
    """What all processes below a root hold for themselves now; waits for the first, which may be
    about to be forked."""
    deadline = time.monotonic() + FORKED_S
    while not (found := descendants(root)) and time.monotonic() < deadline:
        time.sleep(0.001)
    return sum(_sizes(pid).get("RssAnon", 0) for pid in found)


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
