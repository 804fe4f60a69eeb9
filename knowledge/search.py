"""The second stage of retrieval: text ranking over the pages that apply, with SQLite's FTS5 in
memory.

The index is derived from the pages and built when it is first needed (milliseconds for hundreds of
pages).
"""

from __future__ import annotations

import math
import re
import sqlite3
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from . import sections
from .applicability import Applicable
from .page import Page

MAX_TERMS = 48
FAINT = 0.6  # score of the best page below which words alone have found no good match
COVERAGE_SHARE = 0.8  # of a page's score for words that depends on the share of the query it has
# bm25 weights of the columns; a page's score is that of its own words and of its best section
_OF_PAGE = {
    "title": 10.0,
    "asked_as": 8.0,
    "keywords": 8.0,
    "signals": 6.0,
    "families": 5.0,
    "summary": 4.0,
}
_OF_SECTION = {"heading": 4.0, "body": 1.0}
_WORD = re.compile(r"\w")
_COMMON_WORDS = """
a an and are as at be because but by can do does for from get has have how i if in into is it its
make me my no not of on or so than that the them then there this to too use used using was what
when where which why will with you your
"""
_COMMON = frozenset(_COMMON_WORDS.split())
_PARTS = re.compile(r"[^\W_]+")
_NOWHERE = (0.0, "", "")
_SIGNAL_WEIGHT, _TEXT_WEIGHT, _FAMILY_WEIGHT, _FIT_WEIGHT = 2.0, 1.5, 0.8, 0.3


@dataclass(frozen=True)
class Hit:
    """A page that was found. why: which signal, operator family, target, language and words
    matched. snippet: the text around the words, else the page's summary. section: heading of the
    best section, "" for the beginning of the page."""

    id: str
    title: str
    category: str
    why: str
    snippet: str
    score: float
    section: str = ""


@dataclass(frozen=True)
class PassageHits:
    """Passages of documents. hits: best first. coverage: the largest share of the question's words
    in one of them, rare words counting more. notes: on the documents."""

    hits: tuple[Hit, ...] = ()
    coverage: float = 0.0
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class TextMatch:
    """A text match. score: 0..1, 1 for the best page of this query. terms: the words of the query
    that occur in the page. coverage: their share in the query, rare words counting more. section:
    heading of the best section, which contains `snippet`; both "" where only the page's own words
    matched."""

    score: float
    terms: tuple[str, ...]
    coverage: float
    snippet: str
    section: str = ""


class TextIndex:
    """Full-text index over pages; thread-safe, with a lock around each query (about a
    millisecond)."""

    def __init__(self, pages: Iterable[Page]) -> None:
        self._lock = threading.Lock()
        self._db = sqlite3.connect(":memory:", check_same_thread=False)
        pages = list(pages)
        self._count = len(pages)
        with self._db:
            self._create("pages", "id", _OF_PAGE)
            self._create("sections", "id", _OF_SECTION)
            for page in pages:
                lists = (page.asked_as, page.keywords, page.signals, page.families)
                asked_as, keywords, signals, families = map(", ".join, lists)
                row = (page.id, page.title, asked_as, keywords, signals, families, page.summary)
                self._db.execute("INSERT INTO pages VALUES (?, ?, ?, ?, ?, ?, ?)", row)
                rows = (
                    (page.id, section.heading, section.text)
                    for section in sections.split(page.body)
                )
                self._db.executemany("INSERT INTO sections VALUES (?, ?, ?)", rows)

    def _create(self, table: str, key: str, columns: Mapping[str, float]) -> None:
        names = ", ".join((f"{key} UNINDEXED", *columns))
        self._db.execute(
            f'CREATE VIRTUAL TABLE {table} USING fts5({names}, tokenize = "porter unicode61")'
        )

    def close(self) -> None:
        with self._lock:
            self._db.close()

    def __del__(self) -> None:  # a replaced library lives until its last reader is done
        self._db.close()

    def match(self, terms: Sequence[str]) -> dict[str, TextMatch]:
        """Return the pages in which at least one term occurs, by id."""
        if not terms:
            return {}
        query = " OR ".join(map(_quoted, terms))
        with self._lock:
            own = dict(
                self._db.execute(
                    f"SELECT id, -{_bm25('pages', _OF_PAGE)} FROM pages WHERE pages MATCH ?",
                    (query,),
                )
            )
            ranked = (
                f"SELECT id, -{_bm25('sections', _OF_SECTION)}, heading, snippet(sections, 2, '', "
                "'', ' … ', 28) FROM sections"
            )
            parts = self._db.execute(
                f"{ranked} WHERE sections MATCH ? ORDER BY 2", (query,)
            ).fetchall()
            where = {term: self._pages_with(term) for term in terms}
        best = {
            page_id: (score, heading, " ".join(snippet.split()))
            for page_id, score, heading, snippet in parts
        }
        scores = {
            page_id: own.get(page_id, 0.0) + best.get(page_id, _NOWHERE)[0]
            for page_id in {*own, *best}
        }
        top = max(scores.values(), default=0.0) or 1.0
        telling = {
            term: math.log((self._count + 1) / (len(pages) + 0.5)) for term, pages in where.items()
        }
        found = {}
        for page_id, score in scores.items():
            present = tuple(term for term in terms if page_id in where[term])
            coverage = sum(telling[term] for term in present) / sum(telling.values())
            _, section, snippet = best.get(page_id, _NOWHERE)
            found[page_id] = TextMatch(score / top, present, coverage, snippet, section)
        return found

    def _pages_with(self, term: str) -> set[str]:
        found = (
            "SELECT id FROM pages WHERE pages MATCH ? UNION SELECT id FROM sections WHERE sections "
            "MATCH ?"
        )
        return {row[0] for row in self._db.execute(found, (_quoted(term), _quoted(term)))}


def _bm25(table: str, columns: Mapping[str, float]) -> str:
    return f"bm25({table}, 0, {', '.join(map(str, columns.values()))})"


def query_terms(query: str) -> tuple[str, ...]:
    """Return the words of a query for the index. Any text is accepted; symbols without letters are
    left out, and so are common English words, unless there are no others. An identifier counts as a
    whole and by its parts."""
    words = [
        word.strip("\"'`.,;:!?()[]{}<>").casefold() for word in query.replace("\0", " ").split()
    ]
    parts = [
        part
        for word in words
        for part in _PARTS.findall(word)
        if "_" in word or "." in word or "::" in word
    ]
    found = [word for word in dict.fromkeys([*words, *parts]) if _WORD.search(word)]
    return tuple(word for word in found if word not in _COMMON) or tuple(found)


def rank(
    places: Iterable[Applicable], texts: Mapping[str, TextMatch], *, everything: bool = False
) -> list[Hit]:
    """Return hits, best first; ties by id. Pages that no signal, family or word leads to are left
    out unless `everything`."""
    hits = [
        _hit(place, texts.get(place.page.id))
        for place in places
        if everything or place.signals or place.families or place.page.id in texts
    ]
    return sorted(hits, key=lambda hit: (-hit.score, hit.id))


def _hit(place: Applicable, text: TextMatch | None) -> Hit:
    why = [f"signal {name}" for name in place.signals]
    why += [f"operators: {name}" for name in place.families]
    if place.target:
        why.append(f"target {place.target}")
    if place.language:
        why.append(f"language {place.language}")
    if text:
        why.append(f"words: {', '.join(text.terms)}")
    of_signals = sum(place.signals.values()) * (
        0.6 if place.fit < 0 else 1.0
    )  # facts of an architecture that may not be the user's
    score = (
        _SIGNAL_WEIGHT * of_signals
        + _FAMILY_WEIGHT * sum(place.families.values())
        + _FIT_WEIGHT * place.fit
        + (0.05 if place.language else 0.0)
    )
    if text:
        score += _TEXT_WEIGHT * text.score * (1 - COVERAGE_SHARE + COVERAGE_SHARE * text.coverage)
    page = place.page
    snippet = text.snippet if text and text.snippet else page.summary
    section = text.section if text else ""
    return Hit(
        page.id,
        page.title,
        page.category,
        "; ".join(why) or "no filter",
        snippet,
        round(score * page.standing, 4),
        section,
    )


def _quoted(term: str) -> str:
    return '"' + term.replace('"', '""') + '"'
