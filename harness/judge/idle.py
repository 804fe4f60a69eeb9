"""What a judge does while nobody waits for it: work that the next request will probably need, given
up where that needs something else."""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable, Iterator

from .errors import Cancelled, CancelToken

PAUSE_SECONDS = 0.5  # without a request: then it begins

Steps = Callable[[CancelToken], Iterator[None]]


class Idle:
    """One piece of work at a time, done by the thread that serves requests; `interrupt` is for any
    thread."""

    def __init__(self) -> None:
        self._steps: Steps | None = None
        self._subject = ""
        self._token: CancelToken | None = None
        self._closed = False
        self._lock = threading.Lock()

    @property
    def planned(self) -> bool:
        """Whether there is work."""
        return self._steps is not None

    def plan(self, steps: Steps, subject: str) -> None:
        """In place of what was planned before. A step that fails puts everything as it was without
        it: whoever needs its result repeats it, and hears why it fails."""
        self._steps, self._subject = steps, subject

    def drop(self) -> None:
        """Plan nothing."""
        self._steps = None

    def run(self, waiting: Callable[[], bool]) -> None:
        """Step by step, until all is done or a request is `waiting`."""
        steps, self._steps = self._steps, None
        if steps is None:
            return
        with self._lock:
            if self._closed:
                return
            token = self._token = CancelToken()
        try:
            for _ in steps(token):
                if waiting():
                    return
        except Cancelled:
            pass
        except Exception:
            if not self._closed:  # else what it uses was closed meanwhile
                traceback.print_exc()
        finally:
            with self._lock:
                self._token = None
                token.close()

    def interrupt(self, subject: str) -> None:
        """End the step that goes on, if one does for another subject."""
        with self._lock:
            if self._token is not None and self._subject != subject:
                self._token.cancel()

    def close(self) -> None:
        """End the step that goes on, and begin none any more."""
        with self._lock:
            self._closed = True
            if self._token is not None:
                self._token.cancel()
