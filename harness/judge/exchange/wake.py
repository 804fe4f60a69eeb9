"""The event by which the judge wakes a worker that sleeps between its calls.

Whoever holds the event can fill its counter; a write then waits until somebody reads, and no flag
prevents it, since flags belong to the open file, which both sides share. So a thread looks at the
event now and then, ends a worker that has filled it, and empties it, so that the write returns.

Links with a file for each end are no better: a pipe's lock is held by a reader whose splice(2)
waits, which stops even a writer that must not wait, and with sockets the wake was billed 13 to 26 %
more (an event and a pipe are alike).
"""

from __future__ import annotations

import contextlib
import os
import select
import threading

from ..processes.worker import Worker

LOOK_S = 3.0  # rarely, since a look may delay the judge by some 50 us


class Wake:
    """The event of one worker. trusted: it never writes to it, and is not watched."""

    def __init__(self, worker: Worker, *, trusted: bool) -> None:
        self.fd = os.eventfd(0, os.EFD_CLOEXEC)
        self.was_full = False  # the worker was ended for it
        self._worker, self._trusted, self._over = worker, trusted, threading.Event()
        self._watching: threading.Thread | None = None

    def signal(self) -> None:
        """Wake the worker. Waits where the event is full, until the watch has emptied it."""
        if self._watching is None and not self._trusted:
            self._watching = threading.Thread(target=self._watch, daemon=True)
            self._watching.start()
        os.eventfd_write(self.fd, 1)

    def close(self) -> None:
        self._over.set()
        if self._watching is not None:
            self._watching.join()
        os.close(self.fd)

    def _watch(self) -> None:
        poller = select.poll()
        poller.register(self.fd, select.POLLOUT)
        while not self._over.wait(LOOK_S):
            if not poller.poll(0):
                self.was_full = True
                self._worker.kill()
                self._worker.wait_for_end()  # then nobody else fills or empties it
                os.set_blocking(self.fd, False)
                with contextlib.suppress(BlockingIOError):
                    os.eventfd_read(self.fd)
                return
