"""Runs one command so that none of its processes outlives the run: `python -I supervisor.py SECONDS
COMMAND`.

A separate program that only uses the standard library. The command gets its own process session.
When it ends, when its time is up, or when this program's stdin closes (its parent was killed, or
stops it), the command's process group is killed, and so is every descendant that left the group: on
Linux this process adopts orphans. Exit status: the command's, 124 when the time was up, 125 when
stdin closed.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

TIME_UP = 124
STDIN_CLOSED = 125
LOOK_S = 0.05
_SET_CHILD_SUBREAPER = 36  # <linux/prctl.h>


def main() -> int:
    limit_s, command = float(sys.argv[1]), sys.argv[2]
    _adopt_orphans()
    deadline = time.monotonic() + limit_s
    child = subprocess.Popen(
        ["/bin/sh", "-c", command], stdin=subprocess.DEVNULL, start_new_session=True
    )
    try:
        return _watch(child, deadline)
    finally:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        _kill_orphans()


def _watch(child: subprocess.Popen[bytes], deadline: float) -> int:
    while (status := child.poll()) is None:
        if time.monotonic() >= deadline:
            return TIME_UP
        ready, _, _ = select.select([0], [], [], LOOK_S)
        if ready and not os.read(0, 4096):
            return STDIN_CLOSED
    return status if status >= 0 else 128 - status


def _adopt_orphans() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _kill_orphans() -> None:
    """Kill orphans until there are none: a dying process may leave its own children."""
    for _ in range(100):
        try:
            children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
        except OSError:
            return  # without /proc only the process group can be killed
        if not children:
            return
        for pid in map(int, children):
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
            with suppress(ChildProcessError):
                os.waitpid(pid, 0)


if __name__ == "__main__":
    sys.exit(main())
