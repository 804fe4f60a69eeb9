"""Questions without an answer: a small bounded file of counts, which shows what to write next. Safe
for several processes.

It stores words, signals and target of a question, never a text: a query that looks like code or a
pasted message is counted without words.
"""

from __future__ import annotations

import re
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from .documents.cleaning import one_line
from .search import query_terms

MAX_ROWS = 1000
MAX_WORDS = 12
LONG = 24  # different words from which a query is a text, not a question
BUSY_S = 2.0
_WORD = re.compile(r"[^\W_][\w.+-]{0,30}")
_CODE = re.compile(r"[{};=\\`<>]|\w\(|\n\s*\n|\bdef |\bimport |\breturn ")
_SCHEMA = """
CREATE TABLE IF NOT EXISTS gaps (
  words TEXT NOT NULL, signals TEXT NOT NULL, target TEXT NOT NULL, count INTEGER NOT NULL,
  first REAL NOT NULL, last REAL NOT NULL, PRIMARY KEY (words, signals, target)
)"""


@dataclass(frozen=True)
class Gap:
    """A question without a page. words: sorted. first, last: seconds since the epoch."""

    words: tuple[str, ...]
    signals: tuple[str, ...]
    target: str
    count: int
    first: float
    last: float


class Gaps:
    """The questions in the file at `path`, which is created when first needed. A damaged file is
    replaced."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def record(self, query: str, signals: Sequence[str], target: str) -> None:
        """Count a question; beyond MAX_ROWS the rarest and oldest are dropped. Raises OSError,
        sqlite3.Error."""
        key = (
            " ".join(words_of(query)),
            " ".join(sorted({one_line(s, 60) for s in signals})[:MAX_WORDS]),
            one_line(target, 60),
        )
        if not any(key):
            return
        now = time.time()
        with self._open() as db, db:
            db.execute("BEGIN IMMEDIATE")
            db.execute(
                "INSERT INTO gaps VALUES (?, ?, ?, 1, ?, ?) ON CONFLICT DO UPDATE SET count = "
                "count + 1, last = excluded.last",
                (*key, now, now),
            )
            db.execute(
                "DELETE FROM gaps WHERE rowid IN (SELECT rowid FROM gaps ORDER BY last = ? DESC, "
                "count DESC, last DESC LIMIT -1 OFFSET ?)",
                (now, MAX_ROWS),
            )

    def listed(self, limit: int = 50) -> tuple[Gap, ...]:
        """Return questions, the most frequent first. Raises OSError, sqlite3.Error."""
        if not self.path.exists():
            return ()
        with self._open() as db:
            rows = db.execute(
                "SELECT * FROM gaps ORDER BY count DESC, last DESC, words LIMIT ?", (limit,)
            ).fetchall()
        return tuple(
            Gap(tuple(words.split()), tuple(signals.split()), *rest)
            for words, signals, *rest in rows
        )

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with closing(self._connected()) as db:
            yield db

    def _connected(self) -> sqlite3.Connection:
        try:
            return _connect(self.path)
        except sqlite3.OperationalError:
            raise
        except sqlite3.DatabaseError:  # counts are not worth repairing
            self.path.unlink(missing_ok=True)
            return _connect(self.path)


def words_of(query: str) -> tuple[str, ...]:
    """Return the words of a question, sorted, at most MAX_WORDS; none if the query looks like a
    text."""
    terms = query_terms(query)
    if len(terms) > LONG or len(query) > 400 or _CODE.search(query):
        return ()
    # no parts of paths or other long strings
    whole = {word.strip("\"'`.,;:!?()[]").casefold() for word in query.split()}
    return tuple(
        sorted({term for term in terms if term in whole and _WORD.fullmatch(term)})[:MAX_WORDS]
    )


def _connect(path: Path) -> sqlite3.Connection:
    db = sqlite3.connect(path, timeout=BUSY_S, isolation_level=None)
    try:
        db.execute("PRAGMA synchronous = OFF")  # losing a count in a power failure does not matter
        db.execute(_SCHEMA)
    except BaseException:
        db.close()
        raise
    return db
