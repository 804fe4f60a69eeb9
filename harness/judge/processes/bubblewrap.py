"""The level for machines whose kernel denies namespaces to us and grants them to bubblewrap: a
whole fork server lives inside.

What that hides (files, network, other processes) is hidden from every worker forked there; from
each other they are kept by landlock.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Sequence

from ...sandbox import confine
from .freezing import descendants

MISSING = (
    "the program bwrap is not here; on machines without the level above install bubblewrap "
    "(Debian: apt-get install bubblewrap)"
)


def program() -> str | None:
    """Path of bwrap, None without it."""
    return shutil.which("bwrap")


def wrapper(readable: Sequence[str], writable: Sequence[str], devices: Sequence[str]) -> list[str]:
    """What stands before a command so that it runs inside: it sees the system, `readable` and
    `writable` paths, and ends with us."""
    command = [
        program() or "bwrap",
        "--unshare-all",
        "--die-with-parent",
        "--tmpfs",
        "/tmp",
        "--proc",
        "/proc",
        "--dev",
        "/dev",
    ]
    for path in confine.without_nested((*confine.SYSTEM, *confine.ETC, "/etc/passwd", *readable)):
        command += ["--ro-bind-try", path, path]
    for path in writable:
        command += ["--bind", path, path]
    for path in devices:
        command += ["--dev-bind-try", path, path]
    return [*command, "--"]


def outer_pid(server: int, inner: int) -> int:
    """The process that a fork server inside knows as `inner`, as it is known here; 0 if it is gone.
    server: the pid of bwrap."""
    for pid in descendants(server):
        with contextlib.suppress(OSError), open(f"/proc/{pid}/status") as file:
            names = next((line.split()[1:] for line in file if line.startswith("NSpid:")), [])
            if len(names) > 1 and int(names[-1]) == inner:
                return pid
    return 0


def folders(*paths: str) -> tuple[str, ...]:
    """Those that were given, made where they are missing: nothing can be bound that is not
    there."""
    names = [path for path in paths if path]
    for path in names:
        os.makedirs(path, exist_ok=True)
    return tuple(names)
