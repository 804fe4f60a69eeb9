"""The device lock: one per device and machine, whoever the users are; the kernel releases it when
its holder dies.

An flock on a file in a folder that every user of the machine shares. What containers do not share
(their /run/lock and /tmp) they do not lock against each other; that is why the judge also looks for
foreign programs on the device while it times.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import stat
import time
from collections.abc import Iterator

from ..errors import CancelToken

# the first that all users may write to; never TMPDIR, which each user may set differently
FOLDERS = ("/run/lock", "/tmp")
POLL_S = 0.005


class LockBroken(Exception):
    """The lock file cannot be used; the message says what to do."""


class DeviceLock:
    """Held only while something is timed. `held_s` adds up the time."""

    def __init__(self, device: str, folder: str | None = None) -> None:
        self.path = os.path.join(
            folder or shared_folder(),
            f"kevolve-device-{re.sub(r'[^A-Za-z0-9]+', '-', device)}.lock",
        )
        self.held_s = 0.0

    @contextlib.contextmanager
    def hold(self, cancel: CancelToken | None = None) -> Iterator[None]:
        """Wait for the device and keep it. Raises Cancelled while waiting, LockBroken."""
        while (fd := self._try()) is None:
            if cancel is not None:
                cancel.check()
            time.sleep(POLL_S)
        started = time.monotonic()
        try:
            yield
        finally:
            self.held_s += time.monotonic() - started
            os.close(fd)

    @property
    def taken(self) -> bool:
        """Whether somebody holds it at this moment; False where that cannot be told."""
        if not os.path.exists(self.path):
            return False
        try:
            fd = self._try()
        except LockBroken:  # whoever times something is told
            return False
        if fd is not None:
            os.close(fd)
        return fd is None

    def _try(self) -> int | None:
        """The locked descriptor, or None while somebody else holds it."""
        fd = self._open()
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            there = os.stat(self.path, follow_symlinks=False)
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

    def _open(self) -> int:
        """For reading: that is enough for flock, and works on a file that another user created
        under any umask. O_CREAT never meets an existing file, which fs.protected_regular would
        refuse where it belongs to somebody else."""
        for _ in range(100):
            try:
                fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
            except FileNotFoundError:
                with contextlib.suppress(FileExistsError):
                    self._create()
                continue
            except OSError as error:
                raise LockBroken(self._remedy(error.strerror)) from error
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                os.close(fd)
                raise LockBroken(self._remedy("it is no regular file"))
            return fd
        raise LockBroken(self._remedy("it vanishes as soon as it is created"))

    def _create(self) -> None:
        try:
            fd = os.open(self.path, os.O_RDONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        except PermissionError as error:
            raise LockBroken(self._remedy(error.strerror)) from error
        with contextlib.suppress(OSError):
            os.fchmod(fd, 0o666)  # whatever the umask is
        os.close(fd)

    def _remedy(self, reason: str | None) -> str:
        return (
            f"the device lock {self.path} cannot be used: {reason}. It must be a plain file that "
            "every user may read: remove it (its owner or root can), and it is created anew"
        )


def shared_folder() -> str:
    """Where every user of this machine looks for the locks."""
    for folder in FOLDERS:
        with contextlib.suppress(OSError):
            if os.stat(folder).st_mode & stat.S_IWOTH:
                return folder
    return FOLDERS[-1]
