"""How the library finds neighbours: a model, and an in-memory index of passages and their vectors,
both made in a separate thread at the first question.

Vectors are compared one by one. A graph such as HNSW is faster among hundreds of thousands; among
some thousands exact comparison is faster, and a search restricted to few pages stays complete.
"""

from __future__ import annotations

import functools
import logging
import threading
import time
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kevolve_mcp.errors import KEvolveError, Unavailable
from kevolve_mcp.settings import Settings
from knowledge import MakeNearness, Near, Neighbours, Passage

from . import chroma, vector_cache
from .models import Encoder, load

if TYPE_CHECKING:
    from .models import Vectors


class Index:
    """An index of passages; thread-safe. vectors: one row per passage, each of length 1."""

    def __init__(self, passages: Sequence[Passage], vectors: Vectors) -> None:
        self._sections = [passage.section for passage in passages]
        self._vectors = vectors
        self._rows: dict[str, list[int]] = {}
        for row, passage in enumerate(passages):
            self._rows.setdefault(passage.page, []).append(row)

    def nearest(self, vector: Vectors, pages: Collection[str], limit: int) -> dict[str, Near]:
        """Return up to `limit` of the pages with their nearest passage, nearest first."""
        import numpy as np

        # not BLAS: it would wake threads on other cores, which may be timing a kernel
        closeness = np.einsum("ij,j->i", self._vectors, vector).tolist()
        best = {
            page: max(self._rows[page], key=closeness.__getitem__)
            for page in dict.fromkeys(pages)
            if page in self._rows
        }
        ranked = sorted(best.items(), key=lambda found: -closeness[found[1]])
        return {
            page: Near(round(closeness[row], 4), self._sections[row])
            for page, row in ranked[:limit]
        }


# how long questions wait in total for model and index; then words and signals answer alone
WAIT_S = 15.0
RETRY_S = 60.0  # after a failure; until then words and signals answer alone
KEPT_IN = "vectors.sqlite"
PREPARING = "vectors are still being prepared, so only words and signals were used"
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Made:
    """The model and the index, ready to use."""

    encoder: Encoder
    index: Index


class Meaning:
    """See knowledge.Nearness. Nothing is made before the first question. A failure is reported in
    one answer, and retried after `retry_s`."""

    def __init__(
        self,
        passages: Sequence[Passage],
        load: Callable[[], Encoder],
        file: Path,
        server: str = "",
        wait_s: float = WAIT_S,
        retry_s: float = RETRY_S,
    ) -> None:
        self._passages, self._load, self._file, self._server = passages, load, file, server
        self._wait_s, self._retry_s = wait_s, retry_s
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._made: Future[Made] | None = None
        self._wait_until = self._rest_until = 0.0
        self._failure = ""  # why it does not work, "" if it works

    def nearest(self, query: str, pages: Collection[str], limit: int) -> Neighbours:
        if (promise := self._start()) is None:
            return Neighbours()
        wait([promise], max(0.0, self._wait_until - time.monotonic()))
        if not promise.done():
            return Neighbours(note="" if self._failure else PREPARING)
        try:
            made = promise.result()
            (vector,) = made.encoder.encode([query])
            near = made.index.nearest(vector, pages, limit)
        # the model, the hub and the server may raise anything; words and signals answer, and the
        # note says why
        except Exception as error:
            return Neighbours(note=self._failed(promise, error))
        self._failure = ""
        closest = max((page.closeness for page in near.values()), default=1.0)
        return Neighbours(near, strange=closest < made.encoder.strange_below)

    def close(self) -> None:
        """Stop the preparation and free model and index; the next question makes them again."""
        with self._lock:
            self._stop.set()
            self._made = None

    # nobody closes a replaced library, since others may still read it
    def __del__(self) -> None:
        self.close()

    def _start(self) -> Future[Made] | None:
        """The model and index being made, None for a while after a failure."""
        with self._lock:
            now = time.monotonic()
            if self._made is None and now < self._rest_until:
                return None
            if self._made is None:
                self._made, self._stop = Future(), threading.Event()
                self._wait_until = now + (0.0 if self._failure else self._wait_s)
                # Not a daemon: a thread inside torch at interpreter exit aborts the process. It
                # checks whether to go on instead.
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
                return vector_cache.vectors(self._file, encoder, texts, goes_on)

            vectors = (
                chroma.vectors(self._server, self._passages, encoder.identity, make)
                if self._server
                else make()
            )
            if vectors is None:
                raise Unavailable("the preparation was stopped.", "Ask again.")
            promise.set_result(Made(encoder, Index(self._passages, vectors)))
        except BaseException as error:  # raised to the caller that asks
            promise.set_exception(error)

    def _failed(self, promise: Future[Made], error: Exception) -> str:
        """The note for an answer, "" if it was reported before or the preparation was stopped."""
        with self._lock:
            if self._made is not promise:
                return ""
            self._made, self._rest_until = None, time.monotonic() + self._retry_s
            before, self._failure = self._failure, _said(error)
        if before != self._failure:
            _log.warning("vectors cannot be used: %s", self._failure)
        if before:
            return ""
        return (
            "vectors cannot be used, so until they can only words and signals are (reported once): "
            f"{self._failure}"
        )


def _said(error: Exception) -> str:
    return (
        str(error)
        if isinstance(error, KEvolveError)
        else f"{type(error).__name__}: {str(error)[:200]}"
    )


def nearness(settings: Settings) -> MakeNearness | None:
    """Return what the library finds neighbours with, None where no model is set."""
    model = settings.vectors
    if not model:
        return None
    # one for all libraries of this process
    encoder = functools.cache(lambda: load(model, settings.vectors_server))
    return lambda passages: Meaning(
        passages, encoder, settings.cache / KEPT_IN, settings.vectors_server
    )
