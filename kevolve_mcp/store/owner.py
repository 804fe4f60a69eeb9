"""The owner of a job: a process, distinguishable from a later one with the same pid."""

from __future__ import annotations

import os
import socket
from functools import cache
from pathlib import Path

from .records import Owner


def this_process() -> Owner:
    """Return the calling process."""
    pid = os.getpid()
    state = _stat(pid)
    return Owner(_host(), pid, state[1] if state else 0)


def alive(owner: Owner) -> bool | None:
    """Return whether the process still runs; None when this process cannot see it (another host,
    container or boot).

    A zombie counts as dead, since it does no more work.
    """
    if owner.host != _host():
        return None
    state = _stat(owner.pid)
    if state is not None:
        return state[0] not in "ZXx" and state[1] == owner.started
    try:
        os.kill(owner.pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return None  # a process of another user, hidden from /proc
    # Visible to kill but not in /proc: it has just started, or the system has no /proc and start
    # times are unknown.
    return None if Path("/proc/self/stat").exists() else True


def _stat(pid: int) -> tuple[str, int] | None:
    """State letter and start time in ticks since boot: fields 3 and 22 of /proc/PID/stat,
    proc(5)."""
    try:
        text = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    # the command name, field 2, may contain spaces and parentheses
    fields = text[text.rindex(b")") + 2 :].split()
    return fields[0].decode(), int(fields[19])


@cache
def _host() -> str:
    """Name, boot and pid namespace: pids of two containers or two boots are not comparable."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()[:8]
        namespace = os.readlink("/proc/self/ns/pid").strip("pid:[]")
    except OSError:
        boot = namespace = ""
    return "/".join(part for part in (socket.gethostname(), boot, namespace) if part)
