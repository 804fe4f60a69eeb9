"""A judge's work while no request is waiting: it prepares what the next request will probably need,
and stops if that request needs something else."""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable, Iterator

from .errors import Cancelled, CancelToken

PAUSE_SECONDS = 0.5  # time without a request after which the work begins

Steps = Callable[[CancelToken], Iterator[None]]


class Idle:
    """One piece of idle work at a time, done by the thread that serves requests. `interrupt` may be
    called from any thread."""

    def __init__(self) -> None:
        self._steps: Steps | None = None
        self._subject = ""
        self._token: CancelToken | None = None
        self._closed = False
        self._lock = threading.Lock()

    @property
    def planned(self) -> bool:
        """Whether work is planned."""
        return self._steps is not None

    def plan(self, steps: Steps, subject: str) -> None:
        """Plan work, in place of any planned before. A step that fails must undo its effects: the
        request that needs its result repeats it and reports why it fails."""
        self._steps, self._subject = steps, subject

    def drop(self) -> None:
        """Plan nothing."""
        self._steps = None

    def run(self, waiting: Callable[[], bool]) -> None:
        """Work step by step until everything is done or a request is `waiting`."""
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
            if not self._closed:  # otherwise its resources were closed meanwhile
                traceback.print_exc()
        finally:
            with self._lock:
                self._token = None
                token.close()

    def interrupt(self, subject: str) -> None:
        """Cancel the running step if it is for another subject."""
        with self._lock:
            if self._token is not None and self._subject != subject:
                self._token.cancel()

    def close(self) -> None:
        """Cancel the running step and begin no other."""
        with self._lock:
            self._closed = True
            if self._token is not None:
                self._token.cancel()
