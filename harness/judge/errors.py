"""The errors that end work with a worker, and the token that cancels it."""

from __future__ import annotations

import os
import signal
import threading


class WorkerFailed(Exception):
    """The worker answered with an error. kind: of error_report.ERROR_KINDS."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class OrderEnds(WorkerFailed):
    """The worker ordered a build that is fatal to its evaluation, and was killed. The record of the
    build has the message."""

    def __init__(self, message: str) -> None:
        super().__init__("native", message)


class WorkerDied(Exception):
    """The worker ended. signal_number: the signal that killed it, or None; exit_code otherwise.
    held_bytes: what it and its descendants held when they were ended for exceeding the memory
    limit, else 0. peak: the most bytes that the worker itself held. limit: the bytes that it could
    map, 0 for no limit. starved: meanwhile the kernel killed a process because memory ran out."""

    def __init__(
        self,
        signal_number: int | None,
        exit_code: int | None,
        *,
        held_bytes: int = 0,
        peak: int = 0,
        limit: int = 0,
        starved: bool = False,
    ) -> None:
        super().__init__(
            f"was ended because it held {held_bytes / 2**30:.1f} GiB of memory"
            if held_bytes
            else (
                f"ended by signal {signal_number}" if signal_number else f"exited with {exit_code}"
            )
        )
        self.signal_number, self.exit_code = signal_number, exit_code
        self.held_bytes, self.peak, self.limit, self.starved = held_bytes, peak, limit, starved

    @classmethod
    def of(cls, ending: dict[str, list[int]], *, limit: int, killed_for_memory: int) -> WorkerDied:
        """Create the error from the watcher's report. Without a report the watcher was killed as
        well."""
        status, peak = ending.get("S", [signal.SIGKILL, 0])
        number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else None
        return cls(
            number,
            None if number else os.waitstatus_to_exitcode(status),
            held_bytes=ending.get("M", [0])[0],
            peak=peak,
            limit=limit,
            starved=killed_for_memory > 0,
        )


class WorkerTimeout(Exception):
    """The worker did not answer before the deadline, or no longer could, as the text says; it was
    killed."""


class Interfered(Exception):
    """The worker broke the protocol; it was killed."""


class ServerLost(Exception):
    """The fork server was killed, and its workers with it. The worker did not cause this."""

    def __init__(self) -> None:
        super().__init__(
            "the fork server was killed, and its workers with it; the next call starts another"
        )


class Refused(Exception):
    """The requested confinement could not be set up."""


class Cancelled(Exception):
    """The caller withdrew the request; the worker was killed."""


class TaskRefusedError(Exception):
    """The task cannot be judged. The message names the line, if there is one, and the fix."""

    @property
    def for_memory(self) -> bool:
        """Whether a lack of memory is the only reason. Decided by the message, since nothing else
        is known about an error in the task's own process."""
        words = ("GiB are free", "OutOfMemoryError", "ran out of memory")
        return any(word in str(self) for word in words)


class CancelToken:
    """Set from another thread; wakes every wait of the request that holds it."""

    def __init__(self) -> None:
        self.fd = os.eventfd(0, os.EFD_CLOEXEC)
        self._set = threading.Event()

    def cancel(self) -> None:
        self._set.set()
        os.eventfd_write(self.fd, 1)

    def check(self) -> None:
        """Raise Cancelled if the request was cancelled."""
        if self._set.is_set():
            raise Cancelled

    def close(self) -> None:
        os.close(self.fd)
