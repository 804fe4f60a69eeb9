"""How work with a worker ends when it does not end well."""

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
    """The worker ordered a build that ends whoever orders it; it was killed. The message is in the
    record of that build."""

    def __init__(self, message: str) -> None:
        super().__init__("native", message)


class WorkerDied(Exception):
    """The worker ended. signal_number: what killed it, or None; exit_code: else. held_bytes:
    what it and its descendants held when they were ended for holding too much, else 0. peak: the
    most bytes that the worker itself held; limit: those it could map, 0 for any. starved: the
    kernel killed some process for want of memory meanwhile."""

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
        """From what was reported; without a report whoever should have reported was killed as
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
    """No answer before the deadline, or none that could follow, as the text says; the worker was
    killed."""


class Interfered(Exception):
    """The worker broke the protocol; it was killed."""


class ServerLost(Exception):
    """The process that workers are forked from was killed, and they with it: nothing that the
    worker did."""

    def __init__(self) -> None:
        super().__init__(
            "the fork server was killed, and its workers with it; the next call starts another"
        )


class Refused(Exception):
    """The confinement that was asked for could not be entered."""


class Cancelled(Exception):
    """The caller withdrew the request; the worker was killed."""


class TaskRefusedError(Exception):
    """The task cannot be judged; the message names the line where there is one, and the fix."""

    @property
    def for_memory(self) -> bool:
        """Whether memory is all that was missing. Told from the words: of the task's own process
        nothing else is known."""
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
        """Raises Cancelled once cancelled."""
        if self._set.is_set():
            raise Cancelled

    def close(self) -> None:
        os.close(self.fd)
