"""Updating the index of a registered folder: new and changed files are read, missing files are
marked."""

from __future__ import annotations

import importlib.util
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock, Timeout

from .cleaning import one_line
from .files import File, walk
from .formats import MISSING, Unreadable
from .passage_index import Damaged, Document, PassageIndex
from .passages import FORMS, MARKDOWN, PLAIN, cut
from .proposing import Labels, propose
from .reading import DocumentReader, OutOfTime
from .registration import Source

GONE = "gone: the file no longer exists"
MAX_TITLE = 120
_LIBRARIES = {"html": "bs4", "pdf": "pypdf"}


@dataclass(frozen=True)
class Refreshed:
    """The result of an update. index: to search in; None when there is nothing to search.
    documents: its contents. folder_gone: why the folder cannot be listed, so that nothing of it may
    be shown. unread: new or changed paths that could not be read yet. busy: whether another process
    is reading."""

    index: PassageIndex | None
    documents: tuple[Document, ...] = ()
    folder_gone: str = ""
    unread: tuple[str, ...] = ()
    busy: bool = False

    @property
    def gone(self) -> tuple[str, ...]:
        """Return the paths of files that no longer exist."""
        return tuple(document.path for document in self.documents if document.problem == GONE)


def refresh(
    source: Source,
    budget_s: float,
    wait_s: float = 0.0,
    progress: Callable[[str], None] = lambda path: None,
) -> Refreshed:
    """Check every file and read what changed, for about `budget_s` seconds. wait_s: how long to
    wait for another process that reads the folder. progress: called with each path that is read. A
    damaged index is rebuilt. Raises OSError, sqlite3.OperationalError."""
    index = PassageIndex.newest(source.place)
    try:
        files = {file.path: file for file in walk(source.folder)}
    except OSError as error:
        return Refreshed(index, folder_gone=error.strerror or "cannot be listed")
    try:
        known = index.documents() if index else {}
    except Damaged:
        index, known = None, {}
    stale = _stale(files, known)
    unread: list[str] = []
    busy = False
    if stale or index is None:
        try:
            with FileLock(source.place / "reading.lock", timeout=wait_s):
                index, unread = _update(source, budget_s, progress)
                known = index.documents()
        except Timeout:
            busy, unread = True, [file.path for file in stale if not file.problem]
            index = PassageIndex.newest(source.place)
    return Refreshed(index, tuple(known.values()), unread=tuple(unread), busy=busy)


def rebuild(source: Source) -> None:
    """Replace a damaged index by an empty one, which the next refresh fills. Raises OSError."""
    with FileLock(source.place / "reading.lock", timeout=0.0):
        PassageIndex.create(source.place)


def _update(
    source: Source, budget_s: float, progress: Callable[[str], None]
) -> tuple[PassageIndex, list[str]]:
    """The index and what is left to read, including changes by other processes."""
    index = PassageIndex.newest(source.place)
    try:
        known = index.documents() if index else {}
    except Damaged:
        index, known = None, {}
    index = index or PassageIndex.create(source.place)
    files = {file.path: file for file in walk(source.folder)}
    deadline = time.monotonic() + budget_s
    unread = []
    with DocumentReader() as reader:
        for file in _stale(files, known):
            if file.problem:
                index.put(file, "", Labels(), (), file.problem)
            elif time.monotonic() > deadline:
                unread.append(file.path)
            else:
                progress(file.path)
                try:
                    _read(index, reader, source.folder, file, deadline)
                except OutOfTime:
                    unread.append(file.path)
    return index, unread


def _read(
    index: PassageIndex, reader: DocumentReader, folder: Path, file: File, deadline: float
) -> None:
    suffix = os.path.splitext(file.path)[1].lower()
    try:
        text = reader.text(folder / file.path, file.kind, deadline)
    except Unreadable as error:
        index.put(file, "", Labels(), (), one_line(str(error), 300))
        return
    title, passages = cut(text, FORMS.get(suffix, PLAIN) if file.kind == "text" else MARKDOWN)
    title = one_line(title or file.path, MAX_TITLE)
    index.put(file, title, propose(passages), passages, "" if passages else "it has no text")


def _stale(files: dict[str, File], known: dict[str, Document]) -> list[File]:
    """The files that are new or changed, then those in the index that no longer exist."""
    changed = [
        file
        for file in files.values()
        if (old := known.get(file.path)) is None
        or old.signature != file.signature
        or _readable_now(file, old)
    ]
    gone = [
        File(path, "", "gone", GONE)
        for path, old in known.items()
        if path not in files and old.problem != GONE
    ]
    return changed + gone


def _readable_now(file: File, old: Document) -> bool:
    """Whether it failed for a missing library that is now installed."""
    return (
        old.problem.endswith(MISSING)
        and importlib.util.find_spec(_LIBRARIES[file.kind]) is not None
    )
