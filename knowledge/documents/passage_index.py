"""The passages of one registered folder in an SQLite file with a full-text index. The file is
derived data and may be deleted at any time.

A document is replaced in one transaction: a process killed while writing leaves it unchanged. A
damaged file is never repaired: a new one with the next number replaces it, since another process
may still have the old one open.
"""

from __future__ import annotations

import math
import re
import sqlite3
import zlib
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from .cleaning import plain
from .files import File
from .passages import DocumentPassage
from .proposing import Labels

FORMAT = 1  # of the file, the cleaning and the splitting: another number makes another file
BUSY_S = 15.0
MAX_ROWS = 6_000  # passages that one query ranks; its most common words are left out
CANDIDATES = 40  # passages that are then compared word by word
_FILE = re.compile(rf"passages-{FORMAT}-(\d+)\.db")
_DAMAGE = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
_SCHEMA = """
CREATE TABLE documents (id INTEGER PRIMARY KEY, path TEXT UNIQUE NOT NULL,
  slug TEXT UNIQUE NOT NULL, title TEXT NOT NULL, signature TEXT NOT NULL, problem TEXT NOT NULL,
  signals TEXT NOT NULL, families TEXT NOT NULL, passages INTEGER NOT NULL);
CREATE TABLE passages (id INTEGER PRIMARY KEY, document INTEGER NOT NULL, number INTEGER NOT NULL,
  heading TEXT NOT NULL, text TEXT NOT NULL, checksum INTEGER NOT NULL);
CREATE UNIQUE INDEX by_document ON passages (document, number);
CREATE VIRTUAL TABLE words USING fts5 (heading, text, content = 'passages', content_rowid = 'id',
  tokenize = 'porter unicode61');
"""


class Damaged(Exception):
    """The file's content is damaged. It must be rebuilt from the documents."""


@dataclass(frozen=True)
class Document:
    """One indexed file. slug: its path as part of an id. problem: why it has no passages, "" if it
    has. proposed: labels from its words. passages: their number."""

    path: str
    slug: str
    title: str
    signature: str
    problem: str
    proposed: Labels
    passages: int


@dataclass(frozen=True)
class PassageMatch:
    """A passage and how well it matches. score: of the text only; larger is better; comparable
    within one query and file."""

    slug: str
    number: int
    heading: str
    score: float
    terms: tuple[str, ...]
    coverage: float
    text: str


class PassageIndex:
    """An index file. Safe for several threads and processes: each call opens the file anew. Every
    method raises Damaged and sqlite3.OperationalError."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def newest(cls, place: Path) -> PassageIndex | None:
        """Return the newest index of a registration's folder, None without one."""
        numbers = _numbers(place)
        return cls(_file(place, numbers[-1])) if numbers else None

    @classmethod
    def create(cls, place: Path) -> PassageIndex:
        """Create an empty index that replaces all others. The caller must hold the folder's
        lock."""
        old = _numbers(place)
        path = _file(place, old[-1] + 1 if old else 1)
        building = path.with_suffix(".new")
        building.unlink(missing_ok=True)
        with closing(sqlite3.connect(building)) as db:
            db.executescript(_SCHEMA)
            db.execute(f"PRAGMA user_version = {FORMAT}")
        building.rename(path)
        for other in [*place.glob("passages-*.db*"), *place.glob("passages-*.new*")]:
            if other != path:
                other.unlink(missing_ok=True)
        return cls(path)

    def documents(self) -> dict[str, Document]:
        """Return the documents by path."""
        with self._open() as db:
            rows = db.execute(
                "SELECT path, slug, title, signature, problem, signals, families, passages FROM "
                "documents"
            ).fetchall()
        return {
            path: Document(
                path,
                slug,
                title,
                signature,
                problem,
                Labels(_split(signals), _split(families)),
                passages,
            )
            for path, slug, title, signature, problem, signals, families, passages in rows
        }

    def put(
        self,
        file: File,
        title: str,
        proposed: Labels,
        passages: Sequence[DocumentPassage],
        problem: str = "",
    ) -> None:
        """Replace the file's passages."""
        with self._writing() as db:
            known = db.execute(
                "SELECT id, slug FROM documents WHERE path = ?", (file.path,)
            ).fetchone()
            if known:
                self._drop(db, known[0])
            slug = known[1] if known else _slug(db, file.path)
            labels = (" ".join(proposed.signals), " ".join(proposed.families))
            row = (
                known[0] if known else None,
                file.path,
                slug,
                title,
                file.signature,
                problem,
                *labels,
                len(passages),
            )
            key = db.execute(
                "INSERT OR REPLACE INTO documents VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", row
            ).lastrowid
            first = db.execute("SELECT coalesce(max(id), 0) + 1 FROM passages").fetchone()[0]
            rows = [
                (first + n, key, n + 1, p.heading, p.text, _checksum(p.heading, p.text))
                for n, p in enumerate(passages)
            ]
            db.executemany("INSERT INTO passages VALUES (?, ?, ?, ?, ?, ?)", rows)
            db.executemany(
                "INSERT INTO words (rowid, heading, text) VALUES (?, ?, ?)",
                [(r[0], r[3], r[4]) for r in rows],
            )

    def passages(self, slug: str, number: int = 0) -> list[DocumentPassage]:
        """Return the passage of this number, counted from 1; for 0 all of the document."""
        query = """SELECT p.heading, p.text, p.checksum
                   FROM passages p JOIN documents d ON d.id = p.document
                   WHERE d.slug = ? AND (? = 0 OR p.number = ?) ORDER BY p.number"""
        with self._open() as db:
            rows = db.execute(query, (slug, number, number)).fetchall()
        return [
            DocumentPassage(heading, text)
            for heading, text, checksum in rows
            if _checked(heading, text, checksum)
        ]

    def search(self, terms: Sequence[str], hints: Sequence[str], limit: int) -> list[PassageMatch]:
        """Return the passages that match best. terms: those of the question; hints: other words
        that lead to its answer, which do not count as missing where there are terms."""
        asked, also = list(map(_quoted, terms or hints)), list(map(_quoted, hints))
        with self._open() as db:
            db.execute("BEGIN")  # one snapshot for all that follows
            total = db.execute("SELECT count(*) FROM passages").fetchone()[0]
            counts = {term: self._count(db, term) for term in dict.fromkeys([*asked, *also])}
            scores = dict(_best(db, counts))
            if not scores:
                return []
            telling = [
                math.log((total + 1) / (counts[term] + 0.5)) if counts[term] <= total else 0.0
                for term in asked
            ]
            names = list(terms or hints)
            shown = f"""SELECT p.id, d.slug, p.number, p.heading, p.text, p.checksum
                        FROM passages p JOIN documents d ON d.id = p.document
                        WHERE p.id IN ({",".join("?" * len(scores))})"""
            rows = {row[0]: row[1:] for row in db.execute(shown, list(scores))}
        matches = []
        for row in sorted(scores, key=lambda row: -scores[row])[:limit]:
            slug, number, heading, text, checksum = rows[row]
            _checked(heading, text, checksum)
            words = plain(f"{heading} {text}")
            present = [place for place, name in enumerate(names) if _beginning(name) in words]
            coverage = sum(telling[place] for place in present) / (sum(telling) or 1.0)
            matches.append(
                PassageMatch(
                    slug,
                    number,
                    heading,
                    scores[row],
                    tuple(names[n] for n in present),
                    coverage,
                    text,
                )
            )
        return matches

    @staticmethod
    def _count(db: sqlite3.Connection, term: str) -> int:
        """The number of passages with a term; counting stops above MAX_ROWS, since such a term is
        not ranked."""
        some = "SELECT count(*) FROM (SELECT 1 FROM words WHERE words MATCH ? LIMIT ?)"
        return int(db.execute(some, (term, MAX_ROWS + 1)).fetchone()[0])

    @staticmethod
    def _drop(db: sqlite3.Connection, document: int) -> None:
        """Delete a document. An external-content index needs the deleted texts
        (https://sqlite.org/fts5.html#external_content_tables)."""
        db.execute(
            "INSERT INTO words (words, rowid, heading, text) SELECT 'delete', id, heading, text "
            "FROM passages WHERE document = ?",
            (document,),
        )
        db.execute("DELETE FROM passages WHERE document = ?", (document,))

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        with self._open() as db:
            db.execute("BEGIN IMMEDIATE")
            try:
                yield db
            except BaseException:
                db.execute("ROLLBACK")
                raise
            db.execute("COMMIT")

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        try:
            with closing(
                sqlite3.connect(
                    f"{self.path.absolute().as_uri()}?mode=rw",
                    BUSY_S,
                    isolation_level=None,
                    uri=True,
                )
            ) as db:
                if db.execute("PRAGMA user_version").fetchone()[0] != FORMAT:
                    raise Damaged(f"{self.path.name} is not what was written")
                yield db
        except sqlite3.DatabaseError as error:
            if (
                type(error) is sqlite3.DatabaseError
                or getattr(error, "sqlite_errorcode", 0) & 0xFF in _DAMAGE
            ):
                raise Damaged(str(error)) from error
            raise
        except UnicodeDecodeError as error:
            raise Damaged(str(error)) from error


def _beginning(term: str) -> str:
    """The approximate beginning of words with the term's stem; the index knows stems, but querying
    it word by word is slow."""
    words = plain(term).strip()
    return f" {words} " if len(words) < 4 else f" {words[: max(4, len(words) - 3)]}"


def _best(db: sqlite3.Connection, counts: dict[str, int]) -> list[tuple[int, float]]:
    """Rows and scores of CANDIDATES passages, ranked by as many of the rarest terms as allowed. If
    all terms are common, they cannot be ranked: some passages with all of them, else any."""
    chosen, rows = list[str](), 0
    for term in sorted(
        (term for term, count in counts.items() if count), key=lambda term: counts[term]
    ):
        rows += counts[term]
        if rows > MAX_ROWS:
            break
        chosen.append(term)
    if chosen:
        ranked = (
            "SELECT rowid, -bm25(words, 3.0, 1.0) FROM words WHERE words MATCH ? ORDER BY 2 DESC "
            "LIMIT ?"
        )
        return db.execute(ranked, (" OR ".join(chosen), CANDIDATES)).fetchall()
    common = [term for term, count in counts.items() if count]
    for join in (" AND ", " OR ") if common else ():
        if found := db.execute(
            "SELECT rowid, 1.0 FROM words WHERE words MATCH ? LIMIT ?",
            (join.join(common), CANDIDATES),
        ).fetchall():
            return found
    return []


def _slug(db: sqlite3.Connection, path: str) -> str:
    """The path with plain characters only, and a number if another document has the same."""
    plain = re.sub(r"[^A-Za-z0-9._/-]+", "-", path)
    slug, number = plain, 1
    while db.execute("SELECT 1 FROM documents WHERE slug = ?", (slug,)).fetchone():
        number += 1
        slug = f"{plain}-{number}"
    return slug


def _checksum(heading: str, text: str) -> int:
    return zlib.crc32(f"{heading}\0{text}".encode())


def _checked(heading: str, text: str, checksum: int) -> bool:
    """Return True for an undamaged passage. Raises Damaged."""
    if (
        not isinstance(text, str)
        or not isinstance(heading, str)
        or _checksum(heading, text) != checksum
    ):
        raise Damaged("a passage is not what was written")
    return True


def _numbers(place: Path) -> list[int]:
    return sorted(
        int(found[1])
        for path in place.glob("passages-*.db")
        if (found := _FILE.fullmatch(path.name))
    )


def _file(place: Path, number: int) -> Path:
    return place / f"passages-{FORMAT}-{number}.db"


def _quoted(term: str) -> str:
    return '"' + term.replace('"', '""').replace("\0", " ") + '"'


def _split(words: str) -> tuple[str, ...]:
    return tuple(words.split())
