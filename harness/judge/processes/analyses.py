"""The analyses of the CPU libraries of one evaluation. The process that has compiled a library
makes its analysis after the order is answered, while the judge goes on with the candidate."""

from __future__ import annotations

import os
from collections.abc import Mapping

from ...assembly import Inside
from ...wire import frames, memory_files
from ..errors import Interfered, WorkerDied, WorkerFailed, WorkerTimeout
from .answers import read_file, read_inside
from .reaper import Reaper
from .worker import Worker

LISTING_BYTES = 32 << 20
_SECONDS = 60.0  # for the disassembler and the estimator, which have limits of their own


class Analyses:
    """The analyses of one evaluation's libraries, by the identity of their build. One runs at a
    time. Close it when the evaluation ends."""

    def __init__(self, reaper: Reaper) -> None:
        self._reaper = reaper
        self._found: dict[str, Inside] = {}
        self._running: tuple[str, Worker, int] | None = None

    def begin(self, identity: str, worker: Worker) -> None:
        """Let a process analyse the library that it has compiled, and end it afterwards. An earlier
        analysis is waited for."""
        self.found()
        listing = memory_files.create("listing", LISTING_BYTES, fixed=False)
        self._running = identity, worker, listing
        try:
            worker.send("inspect", [listing])
        except (Interfered, WorkerDied) as error:
            self._note(error)

    def found(self) -> Mapping[str, Inside]:
        """Wait for the analysis that runs, and return all. One that fails is a note."""
        if self._running is not None:
            identity, worker, listing = self._running
            try:
                size = worker.wait(frames.OK, _SECONDS).values[0]
                text = read_file(listing, size, LISTING_BYTES).decode(errors="replace")
                self._found[identity] = read_inside(text)
                self.close()
            except (
                Interfered, RecursionError, ValueError, WorkerDied, WorkerFailed, WorkerTimeout
            ) as error:  # fmt: skip
                self._note(error)
        return self._found

    def _note(self, error: Exception) -> None:
        assert self._running is not None
        why = str(error) or type(error).__name__
        self._found[self._running[0]] = Inside(note=f"the code could not be analysed: {why[:200]}")
        self.close()

    def close(self) -> None:
        """End the analysis that runs."""
        if self._running is not None:
            _, worker, listing = self._running
            self._running = None
            self._reaper.add(worker)
            os.close(listing)
