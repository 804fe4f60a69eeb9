"""The process that watches a confined worker: it waits, limits the memory of the worker and all its
descendants, and reports how the worker ended."""

from __future__ import annotations

import contextlib
import functools
import os
import signal

from . import syscalls

LOOK_S = 0.25  # seconds between two checks of the memory in use


def watch(worker: int, status_fd: int, *, resident_bytes: int, namespace: bool) -> None:
    """Watch a worker; never returns. Reports "M bytes" if it ends the worker because all its
    processes together hold more than `resident_bytes` (0: no limit), then "S wait-status
    peak-bytes" with the peak of the worker alone. namespace: this process is the init of a PID
    namespace, and every process in the namespace ends with it; otherwise it is a subreaper."""
    # the judge stops workers often, and each SIGCHLD would cause a costly check of the memory
    syscalls.ignore_stopped_children()
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    status, peak = 0, 0
    with contextlib.suppress(ChildProcessError):
        while True:
            pid, wait_status, usage = os.wait4(-1, os.WNOHANG)
            if pid == worker:
                status, peak = wait_status, usage.ru_maxrss << 10
                break
            if pid:
                continue
            if resident_bytes and (resident := _resident(namespace)) > resident_bytes:
                os.write(status_fd, f"M {resident}\n".encode())
                status, peak = signal.SIGKILL, resident
                break
            signal.sigtimedwait({signal.SIGCHLD}, LOOK_S)
    if not namespace:
        _kill_orphans()
    os.write(status_fd, f"S {int(status)} {peak}\n".encode())
    os._exit(0)


def _resident(namespace: bool) -> int:
    """Return the bytes held: the private memory of all processes, the largest amount that one of
    them shares, and memory in files, mapped or not."""
    pids = (
        [int(p) for p in os.listdir("/proc") if p.isdigit() and p != "1"]
        if namespace
        else _descendants()
    )
    private, libraries, mapped = 0, 0, 0
    files: dict[int, int] = {}
    for pid in pids:
        sizes: dict[str, int] = {}
        # the first thread may have ended before the others, and each may have files of its own
        for thread in _threads(pid):
            with contextlib.suppress(OSError, ValueError):  # it may have ended meanwhile
                sizes = sizes or _status(thread)
                files.update(_memory_files(thread))
        private += sizes.get("RssAnon", 0)
        libraries = max(libraries, sizes.get("RssFile", 0))
        mapped = max(mapped, sizes.get("RssShmem", 0))
    return private + libraries + max(mapped, sum(files.values()) + (_scratch() if namespace else 0))


def _threads(pid: int) -> list[str]:
    """Return the folders of a process's threads."""
    with contextlib.suppress(OSError):
        return [f"/proc/{pid}/task/{thread}" for thread in os.listdir(f"/proc/{pid}/task")]
    return []


def _status(thread: str) -> dict[str, int]:
    """Return the resident sizes of a thread's process, in bytes by field; {} if the thread has
    ended."""
    with open(f"{thread}/status") as file:
        rows = (line.split() for line in file if line.startswith("Rss"))
        return {row[0].rstrip(":"): int(row[1]) << 10 for row in rows}


def _memory_files(thread: str) -> dict[int, int]:
    """Return the bytes of the memory files that a thread has open, by inode; they count even if
    unmapped."""
    device, sizes = _memory_device(), {}
    for fd in os.listdir(f"{thread}/fd"):
        with contextlib.suppress(OSError):  # closed meanwhile
            about = os.stat(f"{thread}/fd/{fd}")
            if about.st_dev == device:
                sizes[about.st_ino] = about.st_blocks << 9
    return sizes


@functools.cache
def _memory_device() -> int:
    """Return the device number of memory files."""
    fd = os.memfd_create("where", os.MFD_CLOEXEC)
    try:
        return os.fstat(fd).st_dev
    finally:
        os.close(fd)


def _scratch() -> int:
    """Return the bytes in the folders of a namespace that are in memory."""
    file_systems = [os.statvfs(folder) for folder in ("/tmp", "/dev/shm")]
    return sum((each.f_blocks - each.f_bfree) * each.f_frsize for each in file_systems)


def _descendants() -> list[int]:
    descendants: list[int] = []
    waiting = _children(os.getpid())
    while waiting:
        pid = waiting.pop()
        descendants.append(pid)
        waiting += _children(pid)
    return descendants


def _children(pid: int) -> list[int]:
    children: list[int] = []
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children") as file:
                children += [int(child) for child in file.read().split()]
    return children


def _kill_orphans() -> None:
    """Without a PID namespace, kill the processes reparented to this subreaper until none is
    left."""
    for _ in range(1000):
        children = _children(os.getpid())
        if not children:
            return
        for pid in children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(-1, 0)
