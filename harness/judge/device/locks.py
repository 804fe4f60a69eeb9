"""The device lock: one per device and machine, common to all users. The kernel releases it when its
holder dies.

It is an flock on a file in a folder that all users of the machine share. Containers with separate
/run/lock and /tmp do not share the lock, so the judge also looks for foreign programs on the device
during timing.

A judge that times holds the lock exclusively. Other work on a device (drawing inputs, loading and
checking candidates) takes the same lock in shared mode, for one piece of work at a time. A second
file is the door: every judge locks it before it takes the device lock, and a judge that wants the
device exclusively keeps the door locked until all sharers have left, so that none waits forever.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import stat
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager

from ...targets import DeviceFamily
from ..errors import CancelToken
from ..processes.worker import Sharing

# the first one that all users may write to is used; not TMPDIR, which users may set differently
FOLDERS = ("/run/lock", "/tmp")
POLL_S = 0.002


class LockBroken(Exception):
    """The lock file cannot be used. The message says what to do."""


class _ProcessLocks:
    """The locks that this process holds, by path. alone: exclusive ones, valid for all threads.
    shared: those of the current thread."""

    def __init__(self) -> None:
        self.alone: set[str] = set()
        self._thread = threading.local()

    @property
    def shared(self) -> set[str]:
        paths: set[str] | None = getattr(self._thread, "paths", None)
        if paths is None:
            paths = self._thread.paths = set()
        return paths


_process_locks = _ProcessLocks()


class DeviceLock:
    """The lock of one device. `hold` is for timing, `share` for other work on the device. held_s:
    the seconds in which it was held exclusively."""

    def __init__(self, device: str, folder: str | None = None) -> None:
        base = os.path.join(
            folder or shared_folder(), f"kevolve-device-{re.sub(r'[^A-Za-z0-9]+', '-', device)}"
        )
        self.path, self._door = f"{base}.lock", f"{base}-door.lock"
        self.held_s = 0.0

    @contextlib.contextmanager
    def hold(self, cancel: CancelToken | None = None) -> Iterator[None]:
        """Wait for the device and hold it exclusively. Raises Cancelled while waiting,
        LockBroken."""
        if self.path in _process_locks.shared:
            raise RuntimeError(
                "a thread that shares the device cannot lock it exclusively: it would wait forever"
            )
        fd = self._through_the_door(fcntl.LOCK_EX, cancel)
        assert fd is not None
        started = time.monotonic()
        _process_locks.alone.add(self.path)
        try:
            yield
        finally:
            _process_locks.alone.discard(self.path)
            self.held_s += time.monotonic() - started
            os.close(fd)

    @contextlib.contextmanager
    def share(self, cancel: CancelToken | None = None) -> Iterator[None]:
        """Wait until nothing is timed on the device, and let no timing begin inside the block. Does
        nothing if this process already holds the lock. Raises Cancelled while waiting,
        LockBroken."""
        shared_paths = _process_locks.shared
        fd = None if self.path in shared_paths else self._through_the_door(fcntl.LOCK_SH, cancel)
        if fd is None:
            yield
            return
        shared_paths.add(self.path)
        try:
            yield
        finally:
            shared_paths.discard(self.path)
            os.close(fd)

    @property
    def is_taken(self) -> bool:
        """Whether something is being timed at this moment; False if unknown."""
        if not os.path.exists(self.path):
            return False
        try:
            fd = self._try(self.path, fcntl.LOCK_SH)
        except LockBroken:  # reported to a judge that wants to time
            return False
        if fd is not None:
            os.close(fd)
        return fd is None

    def _through_the_door(self, how: int, cancel: CancelToken | None) -> int | None:
        """Take the lock through the door. Returns the locked descriptor; None for a shared lock
        that this process holds exclusively already."""
        door: int | None = None
        try:
            while True:
                if how == fcntl.LOCK_SH and self.path in _process_locks.alone:
                    return None
                if door is None:
                    door = self._try(self._door, fcntl.LOCK_EX)
                if door is not None and (fd := self._try(self.path, how)) is not None:
                    return fd
                if cancel is not None:
                    cancel.check()
                time.sleep(POLL_S)
        finally:
            if door is not None:
                os.close(door)

    def _try(self, path: str, how: int) -> int | None:
        """Return the locked descriptor, or None while another process holds the lock."""
        fd = self._open(path)
        try:
            fcntl.flock(fd, how | fcntl.LOCK_NB)
            there = os.stat(path, follow_symlinks=False)
            if (there.st_dev, there.st_ino) == (os.fstat(fd).st_dev, os.fstat(fd).st_ino):
                with contextlib.suppress(OSError):
                    os.utime(fd)  # cleaners of temporary folders delete old files
                return fd
        # held by another process, or a cleaner has removed the file
        except (BlockingIOError, FileNotFoundError):
            pass
        except BaseException:
            os.close(fd)
            raise
        os.close(fd)
        return None

    def _open(self, path: str) -> int:
        """Open the file for reading, which is enough for flock and works on a file that another
        user created under any umask. O_CREAT is never used on an existing file, since
        fs.protected_regular would refuse that for another user's file."""
        for _ in range(100):
            try:
                fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
            except FileNotFoundError:
                with contextlib.suppress(FileExistsError):
                    self._create(path)
                continue
            except OSError as error:
                raise LockBroken(self._remedy(path, error.strerror)) from error
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                os.close(fd)
                raise LockBroken(self._remedy(path, "it is not a regular file"))
            return fd
        raise LockBroken(self._remedy(path, "it vanishes as soon as it is created"))

    def _create(self, path: str) -> None:
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        except PermissionError as error:
            raise LockBroken(self._remedy(path, error.strerror)) from error
        with contextlib.suppress(OSError):
            os.fchmod(fd, 0o666)  # independent of the umask
        os.close(fd)

    def _remedy(self, path: str, reason: str | None) -> str:
        return (
            f"the device lock {path} cannot be used: {reason}. It must be a plain file that "
            "every user may read: remove it (its owner or root can), and it will be created again"
        )


def sharing(family: DeviceFamily) -> Sharing | None:
    """Return the shared lock for requests to a worker on a device; None on a host, where work can
    use other cores."""
    return DeviceLock(family.device_id()).share if family.OWN_MEMORY else None


def between_timings(
    lock: DeviceLock, family: DeviceFamily, cancel: CancelToken | None
) -> AbstractContextManager[None]:
    """Return the context for the judge's own work on a device where others may time."""
    return lock.share(cancel) if family.OWN_MEMORY else contextlib.nullcontext()


def shared_folder() -> str:
    """Return the folder in which all users of this machine look for the locks."""
    for folder in FOLDERS:
        with contextlib.suppress(OSError):
            if os.stat(folder).st_mode & stat.S_IWOTH:
                return folder
    return FOLDERS[-1]
