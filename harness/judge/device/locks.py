"""The device lock: one per device and machine, whoever the users are; the kernel releases it when
its holder dies.

An flock on a file in a folder that every user of the machine shares. What containers do not share
(their /run/lock and /tmp) they do not lock against each other; that is why the judge also looks for
foreign programs on the device while it times.

Who times something holds it alone. What several judges do on a device besides (inputs are drawn,
candidates loaded and checked) they do under the same lock, shared, piece by piece. A second file is
the door: whoever wants the lock takes it there first, and one that wants it alone stays in the door
until those inside have left, so that nobody waits for ever.
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

# the first that all users may write to; never TMPDIR, which each user may set differently
FOLDERS = ("/run/lock", "/tmp")
POLL_S = 0.002


class LockBroken(Exception):
    """The lock file cannot be used; the message says what to do."""


class _ProcessLocks:
    """What this process holds, by path: alone, for all of its threads; shared, by thread."""

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
    """`hold` is for timing, `share` for what else runs on the device. `held_s` adds up the time in
    which something was timed."""

    def __init__(self, device: str, folder: str | None = None) -> None:
        base = os.path.join(
            folder or shared_folder(), f"kevolve-device-{re.sub(r'[^A-Za-z0-9]+', '-', device)}"
        )
        self.path, self._door = f"{base}.lock", f"{base}-door.lock"
        self.held_s = 0.0

    @contextlib.contextmanager
    def hold(self, cancel: CancelToken | None = None) -> Iterator[None]:
        """Wait for the device and keep it alone. Raises Cancelled while waiting, LockBroken."""
        if self.path in _process_locks.shared:
            raise RuntimeError("who shares the device cannot have it alone: it would wait for ever")
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
        """Wait until nobody times anything on the device, and let nobody begin meanwhile. Nothing
        more for who has it already. Raises Cancelled while waiting, LockBroken."""
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
        """Whether somebody times something at this moment; False where that cannot be told."""
        if not os.path.exists(self.path):
            return False
        try:
            fd = self._try(self.path, fcntl.LOCK_SH)
        except LockBroken:  # whoever times something is told
            return False
        if fd is not None:
            os.close(fd)
        return fd is None

    def _through_the_door(self, how: int, cancel: CancelToken | None) -> int | None:
        """The locked descriptor; None for who wants to share what this process holds alone."""
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
        """The locked descriptor, or None while somebody else holds it."""
        fd = self._open(path)
        try:
            fcntl.flock(fd, how | fcntl.LOCK_NB)
            there = os.stat(path, follow_symlinks=False)
            if (there.st_dev, there.st_ino) == (os.fstat(fd).st_dev, os.fstat(fd).st_ino):
                with contextlib.suppress(OSError):
                    os.utime(fd)  # cleaners of temporary folders go by age
                return fd
        # held, or a cleaner has removed the file that was locked
        except (BlockingIOError, FileNotFoundError):
            pass
        except BaseException:
            os.close(fd)
            raise
        os.close(fd)
        return None

    def _open(self, path: str) -> int:
        """For reading: that is enough for flock, and works on a file that another user created
        under any umask. O_CREAT never meets an existing file, which fs.protected_regular would
        refuse where it belongs to somebody else."""
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
                raise LockBroken(self._remedy(path, "it is no regular file"))
            return fd
        raise LockBroken(self._remedy(path, "it vanishes as soon as it is created"))

    def _create(self, path: str) -> None:
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        except PermissionError as error:
            raise LockBroken(self._remedy(path, error.strerror)) from error
        with contextlib.suppress(OSError):
            os.fchmod(fd, 0o666)  # whatever the umask is
        os.close(fd)

    def _remedy(self, path: str, reason: str | None) -> str:
        return (
            f"the device lock {path} cannot be used: {reason}. It must be a plain file that "
            "every user may read: remove it (its owner or root can), and it is created anew"
        )


def sharing(family: DeviceFamily) -> Sharing | None:
    """What a worker on a device is asked under; None on a host, whose cores are many."""
    return DeviceLock(family.device_id()).share if family.OWN_MEMORY else None


def between_timings(
    lock: DeviceLock, family: DeviceFamily, cancel: CancelToken | None
) -> AbstractContextManager[None]:
    """For what the judge itself does on a device that others may be timed on."""
    return lock.share(cancel) if family.OWN_MEMORY else contextlib.nullcontext()


def shared_folder() -> str:
    """Where every user of this machine looks for the locks."""
    for folder in FOLDERS:
        with contextlib.suppress(OSError):
            if os.stat(folder).st_mode & stat.S_IWOTH:
                return folder
    return FOLDERS[-1]
