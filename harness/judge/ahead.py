"""A worker that is started before somebody needs it: on a GPU, with its context, which takes 0.3 s of an evaluation otherwise."""

from __future__ import annotations

from ..workers import frames
from ..workers.confine import Confinement
from .endings import Interfered, Refused, ServerLost, WorkerDied, WorkerFailed, WorkerTimeout
from .processes import ForkServer, Worker

READY_SECONDS = 30.0
_Key = tuple[ForkServer, str, Confinement]


class Ahead:
    """Holds at most one. Like every worker it is used once, and has seen nothing before."""

    def __init__(self) -> None:
        self._held: tuple[_Key, Worker] | None = None

    def start(self, server: ForkServer, kind: str, rules: Confinement, scratch: str, device: str) -> None:
        """Begin with one that will have its context on `device`, without waiting for it; nothing where there is one already."""
        if self._held is not None and self._held[0] == (server, kind, rules):
            return
        self.drop()
        try:
            worker = server.worker(kind, rules, scratch)
            self._held = ((server, kind, rules), worker)
            worker.send("arrive", device=device)
        except (Refused, ServerLost, WorkerDied, OSError):  # whoever needs one will find out why
            self.drop()

    def take(self, server: ForkServer, kind: str, rules: Confinement) -> Worker | None:
        """The one that was started for the same purpose, if it is well."""
        if self._held is None or self._held[0] != (server, kind, rules):
            return None
        (_, worker), self._held = self._held, None
        try:
            worker.wait(frames.OK, READY_SECONDS)
            return worker
        except (Interfered, ServerLost, WorkerDied, WorkerFailed, WorkerTimeout):
            worker.close()
            return None

    def drop(self) -> None:
        """End it."""
        if self._held is not None:
            self._held[1].close()
            self._held = None
