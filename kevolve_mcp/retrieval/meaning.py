"""What the library asks for neighbours: a model and an index that are made in a thread of their own
at the first question."""

from __future__ import annotations

import functools
import logging
import threading
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kevolve_mcp.errors import KEvolveError
from kevolve_mcp.settings import Settings
from knowledge import MakeNearness, Neighbours, Passage

from . import kept
from .index import Index
from .models import Encoder, load

if TYPE_CHECKING:
    from .models import Vectors

# a question waits so long for what is being made, then it is answered by words and signals
WAIT_S = 15.0
KEPT_IN = "vectors.sqlite"
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Made:
    """Model and index, ready."""

    encoder: Encoder
    index: Index


class Meaning:
    """See knowledge.Nearness. Nothing is made before the first question."""

    def __init__(
        self,
        passages: Sequence[Passage],
        load: Callable[[], Encoder],
        file: Path,
        server: str = "",
        wait_s: float = WAIT_S,
    ) -> None:
        self._passages, self._load, self._file, self._server, self._wait_s = (
            passages,
            load,
            file,
            server,
            wait_s,
        )
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._made: Future[Made] | None = None

    def nearest(self, query: str, pages: Collection[str], limit: int) -> Neighbours:
        try:
            made = self._start().result(self._wait_s)
            (vector,) = made.encoder.encode([query])
            near = made.index.nearest(vector, pages, limit)
        except TimeoutError:
            return Neighbours(
                note="vectors are still being prepared, so words and signals answered alone"
            )
        # the model, the hub and the index raise whatever they like; words and signals answer, and
        # the note says why
        except Exception as error:
            _log.warning("vectors cannot be used: %s", error)
            return Neighbours(
                note=f"vectors cannot be used, so words and signals answered alone: {_said(error)}"
            )
        closest = max((page.closeness for page in near.values()), default=1.0)
        return Neighbours(near, strange=closest < made.encoder.strange_below)

    def close(self) -> None:
        """Tells what is being made to stop, and frees what was made; the next question makes it
        again."""
        with self._lock:
            self._stop.set()
            made, self._made = self._made, None
        if made is not None:
            made.add_done_callback(_freed)

    # a library that was renewed is closed by nobody, since others may still read it
    def __del__(self) -> None:
        self.close()

    def _start(self) -> Future[Made]:
        with self._lock:
            if self._made is None:
                self._made, self._stop = Future(), threading.Event()
                # No daemon: a thread inside torch while the interpreter ends aborts the process. It
                # looks whether to go on instead.
                threading.Thread(
                    target=self._make, args=(self._made, self._stop), name="vectors"
                ).start()
            return self._made

    def _make(self, promise: Future[Made], stop: threading.Event) -> None:
        try:
            encoder = self._load()
            texts = [passage.text for passage in self._passages]

            def goes_on() -> bool:
                return not stop.is_set() and threading.main_thread().is_alive()

            def make() -> Vectors | None:
                return kept.vectors(self._file, encoder, texts, goes_on)

            promise.set_result(
                Made(encoder, Index(self._passages, encoder.identity, make, self._server))
            )
        except BaseException as error:  # it belongs to whoever asks
            promise.set_exception(error)


def _freed(made: Future[Made]) -> None:
    if made.exception() is None:
        made.result().index.close()


def _said(error: Exception) -> str:
    return (
        str(error)
        if isinstance(error, KEvolveError)
        else f"{type(error).__name__}: {str(error)[:200]}"
    )


def nearness(settings: Settings) -> MakeNearness | None:
    """What the library makes its neighbours with; None where no model is set."""
    model = settings.vectors
    if not model:
        return None
    # one for all libraries that are made while this process lives
    encoder = functools.cache(lambda: load(model))
    return lambda passages: Meaning(
        passages, encoder, settings.cache / KEPT_IN, settings.vectors_server
    )
