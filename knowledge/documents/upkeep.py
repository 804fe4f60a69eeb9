"""The state of each registered folder: checked now and then, kept in memory in between, rebuilt
when its index is damaged."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from filelock import Timeout

from ..errors import DocumentError
from .passage_index import Damaged, Document, PassageIndex
from .proposing import Labels
from .refreshing import Refreshed, rebuild, refresh
from .registration import Source, reviewed

READ_S = 4.0  # that a search may spend on changed files
NAMED = 3  # files in a note
T = TypeVar("T")


@dataclass(frozen=True)
class Kept:
    """The state of a folder. index: to search in, None when there is none. documents: by slug.
    labels: from the review file, by path. notes: for the user that searches."""

    index: PassageIndex | None = None
    documents: Mapping[str, Document] = field(default_factory=dict)
    labels: Mapping[str, Labels] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def about(self, slug: str) -> Labels:
        """Return a document's labels: as reviewed, else as proposed."""
        document = self.documents[slug]
        return self.labels.get(document.path, document.proposed)


class Upkeep:
    """The states of folders; thread-safe. recheck_s: how long a folder counts as unchanged after
    its files were checked."""

    def __init__(self, recheck_s: float) -> None:
        self._recheck_s = recheck_s
        self._kept: dict[str, tuple[float, Kept]] = {}
        self._lock = threading.Lock()

    def forget(self, name: str) -> None:
        """Check the folder again the next time."""
        with self._lock:
            self._kept.pop(name, None)

    def use(self, source: Source, work: Callable[[Kept], T]) -> tuple[T | None, tuple[str, ...]]:
        """Return the result of `work` on the folder, and notes. A damaged index is rebuilt once; if
        the folder cannot be read, the result is None and a note says why."""
        try:
            try:
                return self._attempt(source, work)
            except Damaged:
                self.forget(source.name)
                rebuild(source)
                return self._attempt(source, work)
        except Timeout:
            return None, (
                (
                    f"the documents {source.name!r} are being read by another process; search "
                    "again later"
                ),
            )
        except Damaged:
            return None, (
                (
                    f"the index of the documents {source.name!r} was damaged again right after "
                    "being rebuilt"
                ),
            )
        except (OSError, sqlite3.OperationalError) as error:
            return None, (f"the documents {source.name!r} cannot be searched now ({error})",)

    def _attempt(
        self, source: Source, work: Callable[[Kept], T]
    ) -> tuple[T | None, tuple[str, ...]]:
        kept = self._look(source)
        return (work(kept) if kept.index else None), kept.notes

    def _look(self, source: Source) -> Kept:
        with self._lock:
            when, kept = self._kept.get(source.name, (0.0, Kept()))
            if (
                kept.index is None
                or time.monotonic() - when >= self._recheck_s
                or not kept.index.path.exists()
            ):
                kept = _kept(source, refresh(source, READ_S))
                self._kept[source.name] = (time.monotonic(), kept)
            return kept


def _kept(source: Source, state: Refreshed) -> Kept:
    labels: Mapping[str, Labels] = {}
    notes = _notes(source, state)
    try:
        labels = reviewed(source)
    except DocumentError as error:
        notes = (*notes, f"{error} Until then the proposed labels are used.")
    documents = {document.slug: document for document in state.documents}
    return Kept(None if state.folder_gone else state.index, documents, labels, notes)


def _notes(source: Source, state: Refreshed) -> tuple[str, ...]:
    again = f"add {source.folder} again to read them"
    if state.folder_gone:
        return (
            (
                f"the folder of the documents {source.name!r} is gone ({source.folder}: "
                f"{state.folder_gone}); nothing of it is shown"
            ),
        )
    notes = []
    if state.gone:
        notes.append(f"of the documents {source.name!r} {some(state.gone)} gone")
    if state.unread:
        why = "another process is reading them" if state.busy else again
        notes.append(
            f"of the documents {source.name!r} {some(state.unread)} new or changed and not read "
            f"yet; {why}"
        )
    return tuple(notes)


def some(paths: tuple[str, ...]) -> str:
    """Return the first few paths and the number of others, as the beginning of a sentence."""
    more = f" and {len(paths) - NAMED} more" if len(paths) > NAMED else ""
    return f"{', '.join(paths[:NAMED])}{more} {'is' if len(paths) == 1 else 'are'}"
