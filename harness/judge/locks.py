"""The device lock: one per device and machine, whoever the users are; the kernel releases it when its holder dies."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import time
from collections.abc import Iterator

from .processes import CancelToken

FOLDER = "/tmp"


class DeviceLock:
    """Held only while something is timed. `held_s` adds up the time."""

    def __init__(self, device: str) -> None:
        self._path = os.path.join(FOLDER, f"kevolve-device-{re.sub(r'[^A-Za-z0-9]+', '-', device)}.lock")
        self.held_s = 0.0

    @contextlib.contextmanager
    def hold(self, cancel: CancelToken | None = None) -> Iterator[None]:
        """Wait for the device and keep it. Raises Cancelled while waiting."""
        fd = self._open()
        try:
            while True:
                try:
                    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if cancel is not None:
                        cancel.check()
                    time.sleep(0.005)
            started = time.monotonic()
            try:
                yield
            finally:
                self.held_s += time.monotonic() - started
        finally:
            os.close(fd)

    def _open(self) -> int:
        try:  # without O_CREAT first: sysctl fs.protected_regular forbids it on another user's file in a sticky folder
            return os.open(self._path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        except FileNotFoundError:
            fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
            with contextlib.suppress(OSError):
                os.fchmod(fd, 0o666)
            return fd
