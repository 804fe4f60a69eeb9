"""The isolation level for machines whose kernel denies namespaces to the judge but grants them to
bubblewrap: a whole fork server runs inside.

Bubblewrap hides files, network and other processes from every worker forked there; landlock
isolates these workers from each other.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Sequence

from ...sandbox import confine
from .freezing import descendants

MISSING = (
    "the program bwrap is not installed; on machines without a stronger level install bubblewrap "
    "(Debian: apt-get install bubblewrap)"
)


def program() -> str | None:
    """Return the path of bwrap, None without it."""
    return shutil.which("bwrap")


def wrapper(readable: Sequence[str], writable: Sequence[str], devices: Sequence[str]) -> list[str]:
    """Return the prefix of a command that runs inside bubblewrap. The command sees the system and
    the `readable` and `writable` paths, and ends with this process."""
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
    """Return this process's id for the process that a fork server inside knows as `inner`; 0 if it
    is gone. server: the pid of bwrap."""
    for pid in descendants(server):
        with contextlib.suppress(OSError), open(f"/proc/{pid}/status") as file:
            names = next((line.split()[1:] for line in file if line.startswith("NSpid:")), [])
            if len(names) > 1 and int(names[-1]) == inner:
                return pid
    return 0


def folders(*paths: str) -> tuple[str, ...]:
    """Return the non-empty paths, created where they are missing: only existing folders can be
    bound."""
    names = [path for path in paths if path]
    for path in names:
        os.makedirs(path, exist_ok=True)
    return tuple(names)
