"""The second stage of retrieval: text ranking over the shelf, with SQLite's FTS5 in memory.

The index is derived from the pages and built when it is first needed (milliseconds for hundreds of pages).
"""

from __future__ import annotations

import re
import sqlite3
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from .page import Page
from .shelf import Place

MAX_TERMS = 48
_COLUMNS = {"title": 10.0, "keywords": 8.0, "signals": 6.0, "summary": 4.0, "body": 1.0}  # bm25 weights
_WORD = re.compile(r"\w")
_COMMON_WORDS = """
a an and are as at be because but by can do does for from get has have how i if in into is it its make me my of on or so than that
the them then there this to too use was what when where which why will with you your
"""
_COMMON = frozenset(_COMMON_WORDS.split())
_SIGNAL_WEIGHT, _TEXT_WEIGHT, _FIT_WEIGHT = 2.0, 1.5, 0.3


@dataclass(frozen=True)
class Hit:
    """why: which signal, target, language and words matched. snippet: where the words stand, else the page's summary."""

    id: str
    title: str
    category: str
    why: str
    snippet: str
    score: float


@dataclass(frozen=True)
class TextMatch:
    """score: 0..1, 1 for the best page of this query. terms: the words of the query that occur in the page."""

    score: float
    terms: tuple[str, ...]
    snippet: str


class TextIndex:
    """Full-text index over pages. Safe to use from several threads; the lock covers one query (about a millisecond)."""

    def __init__(self, pages: Iterable[Page]) -> None:
        self._lock = threading.Lock()
        self._db = sqlite3.connect(":memory:", check_same_thread=False)
        columns = ", ".join(("id UNINDEXED", *_COLUMNS))
        self._db.execute(f"CREATE VIRTUAL TABLE pages USING fts5({columns}, tokenize = \"porter unicode61 tokenchars '_'\")")
        rows = ((p.id, p.title, ", ".join(p.keywords), " ".join(p.signals), p.summary, p.body) for p in pages)
        with self._db:
            self._db.executemany("INSERT INTO pages VALUES (?, ?, ?, ?, ?, ?)", rows)

    def close(self) -> None:
        with self._lock:
            self._db.close()

    def match(self, terms: Sequence[str]) -> dict[str, TextMatch]:
        """Pages in which at least one term occurs, by id."""
        if not terms:
            return {}
        weights = ", ".join(("0", *map(str, _COLUMNS.values())))
        ranked = f"SELECT id, -bm25(pages, {weights}), snippet(pages, 5, '', '', ' … ', 28) FROM pages WHERE pages MATCH ?"
        with self._lock:
            rows = self._db.execute(ranked, (" OR ".join(map(_quoted, terms)),)).fetchall()
            where = {
                term: {row[0] for row in self._db.execute("SELECT id FROM pages WHERE pages MATCH ?", (_quoted(term),))}
                for term in terms
            }
        top = max((score for _, score, _ in rows), default=0.0) or 1.0
        return {
            page_id: TextMatch(score / top, tuple(term for term in terms if page_id in where[term]), " ".join(text.split()))
            for page_id, score, text in rows
        }


def query_terms(query: str) -> tuple[str, ...]:
    """The words of a query, as the index can look them up: any text is accepted; signs without letters are left out, and so
    are common English words, unless there are no others."""
    seen = dict.fromkeys(word.strip("\"'`.,;:!?()[]{}<>").casefold() for word in query.replace("\0", " ").split())
    found = [word for word in seen if _WORD.search(word)]
    return tuple(word for word in found if word not in _COMMON) or tuple(found)


def rank(places: Iterable[Place], texts: Mapping[str, TextMatch], *, everything: bool = False) -> list[Hit]:
    """Hits, best first; ties by id. Pages that neither a signal nor a word leads to are left out unless `everything`."""
    hits = [_hit(place, texts.get(place.page.id)) for place in places if everything or place.signals or place.page.id in texts]
    return sorted(hits, key=lambda hit: (-hit.score, hit.id))


def _hit(place: Place, text: TextMatch | None) -> Hit:
    why = [f"signal {name}" for name in place.signals]
    if place.target:
        why.append(f"target {place.target}")
    if place.language:
        why.append(f"language {place.language}")
    if text:
        why.append(f"words: {', '.join(text.terms)}")
    of_signals = sum(place.signals.values()) * (
        0.6 if place.fit < 0 else 1.0
    )  # facts of an architecture that may not be the user's
    score = _SIGNAL_WEIGHT * of_signals + _FIT_WEIGHT * place.fit + (0.05 if place.language else 0.0)
    if text:
        score += _TEXT_WEIGHT * text.score
    page = place.page
    snippet = text.snippet if text and text.snippet else page.summary
    return Hit(page.id, page.title, page.category, "; ".join(why) or "no filter", snippet, round(score, 4))


def _quoted(term: str) -> str:
    return '"' + term.replace('"', '""') + '"'
