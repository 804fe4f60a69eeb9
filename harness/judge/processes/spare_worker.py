"""A worker that is started before it is needed; on a GPU with its context, which would otherwise
take 0.3 s of an evaluation."""

from __future__ import annotations

import threading

from ...sandbox.confine import Confinement
from ...wire import frames
from ..errors import (
    CancelToken,
    Interfered,
    Refused,
    ServerLost,
    WorkerDied,
    WorkerFailed,
    WorkerTimeout,
)
from .fork_server_process import ForkServer
from .worker import Worker

READY_SECONDS = 30.0
_Key = tuple[ForkServer, str, Confinement]


class SpareWorker:
    """Holds at most one worker; for any thread. Like every worker it is used once, and has loaded
    nothing before."""

    def __init__(self) -> None:
        self._asking = threading.Lock()
        self._key: _Key | None = None
        self._worker: Worker | None = None
        self._starting: threading.Thread | None = None

    def start(
        self, server: ForkServer, kind: str, rules: Confinement, scratch: str, device: str
    ) -> None:
        """Start a worker with a context on `device`, without waiting for it, unless there is one
        already."""
        with self._asking:
            if self._key == (server, kind, rules):
                return
            self._end()
            self._key = (server, kind, rules)
            self._starting = threading.Thread(
                target=self._start, args=(server, kind, rules, scratch, device)
            )
            self._starting.start()

    def _start(
        self, server: ForkServer, kind: str, rules: Confinement, scratch: str, device: str
    ) -> None:
        try:
            worker = server.worker(kind, rules, scratch)
        # the evaluation that needs a worker will find the reason
        except (Refused, WorkerDied, frames.WorkerGone, OSError):
            return
        try:
            with worker.between_timings():
                worker.send("arrive", device=device)
                worker.has_message(READY_SECONDS)
            self._worker = worker
        except (ServerLost, WorkerDied):
            worker.close()

    def take(
        self, server: ForkServer, kind: str, rules: Confinement, cancel: CancelToken | None = None
    ) -> Worker | None:
        """Return the worker that was started for the same purpose, if it works. Raises
        Cancelled."""
        with self._asking:
            if self._key != (server, kind, rules):
                self._end()
                return None
            worker = self._let_go()
        if worker is None:
            return None
        worker.cancel = cancel
        try:
            worker.wait(frames.OK, READY_SECONDS)
            if not worker.has_ended:
                return worker
        except (Interfered, ServerLost, WorkerDied, WorkerFailed, WorkerTimeout):
            pass
        except BaseException:
            worker.close()
            raise
        worker.close()
        return None

    def drop(self) -> None:
        """End the worker, if there is one."""
        with self._asking:
            self._end()

    def _end(self) -> None:
        if (worker := self._let_go()) is not None:
            worker.close()

    def _let_go(self) -> Worker | None:
        """Wait until the start is over, and return the worker."""
        if self._starting is not None:
            self._starting.join()
        worker, self._worker, self._key, self._starting = self._worker, None, None, None
        return worker
