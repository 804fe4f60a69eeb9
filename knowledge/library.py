"""The library: all pages and skills, for searching and reading."""

from __future__ import annotations

import copy
import difflib
import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from . import sections
from .applicability import Applicable, applicable
from .errors import PageError, PageNotFound, QueryError
from .families import of_operators
from .messages import signals_of
from .page import FOLDERS, Page, Skill, parse_page, parse_skill
from .search import FAINT, MAX_TERMS, Hit, PassageHits, TextIndex, query_terms, rank
from .vectors import DEPTH, MakeNearness, Neighbours, fuse, passages

if TYPE_CHECKING:  # most homes have none
    from .documents import Documents

BUILTIN = Path(__file__).parent
INDEX_ID = "index"
MAX_LIMIT = 50
SUPPOSED = 0.25  # weight of a signal read from a message, relative to a given signal
# share of the question's words that a passage of a user's document must contain to be an answer
DOCUMENT_COVERAGE = 0.4


@dataclass(frozen=True)
class Results:
    """One page of hits. next_cursor: the `cursor` for the following ones, None at the end. note:
    about the query itself: unknown signal, words left out, a filter that excludes everything. fits:
    False when no page matches well; the hits are then the nearest."""

    hits: tuple[Hit, ...]
    total: int
    next_cursor: int | None = None
    note: str = ""
    fits: bool = True


@dataclass(frozen=True)
class Reading:
    """A slice of a page's Markdown. offset, next_offset and total count characters; slices end at
    line ends."""

    id: str
    title: str
    category: str
    text: str
    offset: int
    total: int
    next_offset: int | None
    links: tuple[str, ...] = ()


class Library:
    """Pages by id. Immutable and thread-safe; the text index is built on the first search.

    nearness: makes the search by meaning; without it only words and signals are used.
    """

    _documents: Documents | None = None

    def __init__(
        self,
        pages: Iterable[Page] = (),
        skills: Iterable[Skill] = (),
        *,
        nearness: MakeNearness | None = None,
    ) -> None:
        self._skills = {skill.id: skill for skill in skills}
        self._pages: dict[str, Page] = {}
        for page in sorted([*pages, *(s.page for s in self._skills.values())], key=_order):
            if page.id in self._pages:
                raise PageError(
                    f"two pages have the id {page.id!r}: {self._pages[page.id].source} and "
                    f"{page.source}.",
                    "Rename one of the two files.",
                )
            self._pages[page.id] = page
        self._known_signals = frozenset(
            name for page in self._pages.values() for name in page.signals
        )
        self._make_nearness = nearness
        self._nearness = nearness(passages(self._pages.values())) if nearness else None

    @classmethod
    def builtin(cls, *, nearness: MakeNearness | None = None) -> Library:
        """Return the library of pages and skills that come with the package."""
        return cls.load(nearness=nearness)

    @classmethod
    def load(
        cls,
        folders: Sequence[Path] = (),
        *,
        pages: Iterable[Page] = (),
        skills: Iterable[Skill] = (),
        nearness: MakeNearness | None = None,
    ) -> Library:
        """Load built-in content, then `folders` of the same layout, then given pages and skills.
        Raises PageError."""
        all_pages, all_skills = list(pages), list(skills)
        for found_pages, found_skills in (_shipped(), *map(read_folder, folders)):
            all_pages += found_pages
            all_skills += found_skills
        return cls(all_pages, all_skills, nearness=nearness)

    def extended(self, *, pages: Iterable[Page] = (), skills: Iterable[Skill] = ()) -> Library:
        """Return a new library with additional pages and skills. Raises PageError where an id is
        taken."""
        own = [page for page in self._pages.values() if page.id not in self._skills]
        return self._remade([*own, *pages], [*self._skills.values(), *skills])

    def with_skills(self, skills: Iterable[Skill]) -> Library:
        """Return a new library with these skills instead of its own."""
        return self._remade(
            [page for page in self._pages.values() if page.id not in self._skills], skills
        )

    def _remade(self, pages: Iterable[Page], skills: Iterable[Skill]) -> Library:
        library = Library(pages, skills, nearness=self._make_nearness)
        return library.with_documents(self._documents) if self._documents else library

    def with_documents(self, documents: Documents) -> Library:
        """Return this library with a user's documents to search and read; their ids begin with
        "documents/"."""
        library = copy.copy(self)
        library._documents = documents
        return library

    def pages(self) -> tuple[Page, ...]:
        """Return all pages in the order of the index."""
        return tuple(self._pages.values())

    def page(self, page_id: str) -> Page:
        """Return a page. "guidance/x.md" and "skills/x/skill.md" are accepted, too. Raises
        PageNotFound with similar ids."""
        if self._documents and self._documents.names(page_id.strip()):
            return self._documents.page(page_id.strip())
        wanted = page_id.strip().removeprefix("knowledge/").removesuffix(".md").strip("/")
        if wanted.startswith("skills/") and wanted not in self._pages:
            wanted = wanted.removesuffix("/skill")
        if wanted not in self._pages:
            near = ", ".join(self._near(wanted))
            raise PageNotFound(
                f"no page has the id {page_id!r:.100}.",
                f"Near: {near}. The page 'index' lists all.",
            )
        return self._pages[wanted]

    def skills(self) -> tuple[Skill, ...]:
        """Return all skills, by id."""
        return tuple(self._skills[name] for name in sorted(self._skills))

    def search(
        self,
        query: str = "",
        signals: Sequence[str] = (),
        target: str = "",
        language: str = "",
        limit: int = 5,
        cursor: int = 0,
        operators: Sequence[str] = (),
    ) -> Results:
        """Return pages for the target and the language that a signal, an operator or a word of the
        query leads to, best first. operators: those of a task, such as
        "aten.native_layer_norm.default"; identifiers among the words count, too. Without signals,
        messages of compilers and drivers among the words are turned into signals.

        Without signals, operators and words: every page that applies. Raises QueryError for a limit
        outside 1..50 or a cursor below 0.
        """
        if not 1 <= limit <= MAX_LIMIT:
            raise QueryError(
                f"limit must be in 1..{MAX_LIMIT}, not {limit}.", "Use the cursor for more."
            )
        if cursor < 0:
            raise QueryError(
                f"cursor must not be negative, but is {cursor}.",
                "Begin with 0 and continue with the cursor from the last answer.",
            )
        target, language = target.strip().lower(), language.strip().lower()
        terms = query_terms(query)
        families = of_operators([*operators, *(term for term in terms if "_" in term)])
        told = tuple(signals) or signals_of(query)
        places = applicable(self._pages, told, target, language, families)
        if not signals and told:
            places = [_supposed(place) for place in places]
        everything = not terms and not told and not families
        own = rank(places, self._text.match(terms[:MAX_TERMS]), everything=everything)
        near = self._near_to(query, places) if terms else Neighbours()
        faint = near.strange or (own[0].score if own else 0.0) < FAINT
        found = (
            self._documents.search(terms[:MAX_TERMS], told, target, families)
            if self._documents
            else PassageHits()
        )
        hits = list(
            heapq.merge(fuse(own, near.pages, self._pages), found.hits, key=lambda hit: -hit.score)
        )
        following = cursor + limit if cursor + limit < len(hits) else None
        notes = self._notes(signals, terms)
        known = bool(told or families) or found.coverage >= DOCUMENT_COVERAGE
        fits = bool(hits) and (known or everything or not faint)
        if hits and not fits:
            notes.append("no page matches these words well; the nearest follow")
        notes += [*found.notes, *([near.note] if near.note else [])]
        if not hits and (target or language):
            open_total = self.search(query, signals, limit=1, operators=operators).total
            if open_total:
                notes.append(
                    f"nothing for target {target or 'any'!r} and language {language or 'any'!r}; "
                    f"without them: {open_total} pages"
                )
        return Results(
            tuple(hits[cursor : cursor + limit]), len(hits), following, "; ".join(notes), fits
        )

    def read(self, page_id: str, offset: int = 0, limit: int = 12_000) -> Reading:
        """Return up to `limit` characters of a page from `offset` on; "index" lists all pages.

        Raises PageNotFound, and QueryError for an offset outside the page or a limit below 1.
        """
        if page_id.strip().removesuffix(".md") == INDEX_ID:
            # imported here, since the module of the index imports this one
            from .index import render

            page = Page(INDEX_ID, "Index", "index", "", render(self))
        else:
            page = self.page(page_id)
        total = len(page.body)
        if limit < 1 or not 0 <= offset <= total:
            raise QueryError(
                f"offset {offset}, limit {limit}: the page has {total} characters.",
                "Begin with offset 0 and continue with next_offset.",
            )
        end = min(offset + limit, total)
        line_end = page.body.rfind("\n", offset, end)
        if end < total and line_end > offset:
            end = line_end + 1
        return Reading(
            page.id,
            page.title,
            page.category,
            page.body[offset:end],
            offset,
            total,
            end if end < total else None,
            page.links,
        )

    def passage(self, page_id: str, section: str = "", limit: int = 1600) -> str:
        """Return one section of a page, cut at a line after `limit` characters; the beginning of
        the page if no section has this heading. Raises PageNotFound."""
        parts = sections.split(self.page(page_id).body)
        start = next((part for part in parts if part.heading == section), parts[0])
        return self.read(
            page_id, start.offset, min(limit, len(start.text)) if start.heading else limit
        ).text

    @cached_property
    def _text(self) -> TextIndex:
        return TextIndex(self._pages.values())

    def _near_to(self, query: str, places: Sequence[Applicable]) -> Neighbours:
        return (
            self._nearness.nearest(query, [place.page.id for place in places], DEPTH)
            if self._nearness
            else Neighbours()
        )

    def close(self) -> None:
        """Free the text index and the vectors, if there are any; the next search builds them
        again."""
        if index := self.__dict__.pop("_text", None):
            index.close()
        if self._nearness:
            self._nearness.close()

    def _near(self, wanted: str) -> list[str]:
        last = {page_id.split("/")[-1]: page_id for page_id in self._pages}
        by_name = [
            last[name] for name in difflib.get_close_matches(wanted.split("/")[-1], last, 3, 0.5)
        ]
        return (
            list(dict.fromkeys(by_name + difflib.get_close_matches(wanted, self._pages, 3, 0.3)))[
                :5
            ]
            or list(self._pages)[:5]
        )

    def _notes(self, signals: Sequence[str], terms: Sequence[str]) -> list[str]:
        notes = []
        for name in signals:
            if name not in self._known_signals:
                near = difflib.get_close_matches(name, self._known_signals, 2)
                notes.append(
                    f"no page names the signal {name!r}"
                    + (f"; near: {', '.join(near)}" if near else "")
                )
        if len(terms) > MAX_TERMS:
            notes.append(
                f"the query has {len(terms)} different words; the first {MAX_TERMS} were used"
            )
        return notes


def _supposed(place: Applicable) -> Applicable:
    return replace(
        place, signals={name: SUPPOSED * weight for name, weight in place.signals.items()}
    )


@cache
def _shipped() -> tuple[list[Page], list[Skill]]:
    """The built-in content, read once per process, since it does not change."""
    return read_folder(BUILTIN)


def read_folder(folder: Path) -> tuple[list[Page], list[Skill]]:
    """Return the pages and skills below a folder with the layout of this package; missing or empty
    parts are fine. Raises PageError."""
    if not folder.is_dir():
        raise PageError(
            f"{folder} is not a folder.",
            f"A knowledge folder holds {', '.join(FOLDERS)} with Markdown pages in them.",
        )
    pages, skills = [], []
    for path in sorted(folder.glob("*/**/*.md")):
        parts = path.relative_to(folder).with_suffix("").parts
        if parts[0] != "skills" and not any(part.startswith(".") for part in parts):
            pages.append(parse_page("/".join(parts), _text_of(path), str(path)))
    for path in sorted(folder.glob("skills/*/skill.md")):
        files = {
            str(other.relative_to(path.parent)): _text_of(other)
            for other in sorted(path.parent.rglob("*"))
            if other.is_file() and other != path and "__pycache__" not in other.parts
        }
        skills.append(parse_skill(f"skills/{path.parent.name}", _text_of(path), files, str(path)))
    return pages, skills


def _text_of(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise PageError(
            f"{path}: not UTF-8 text (byte {error.start}).", "Save the file as UTF-8."
        ) from error


def _order(page: Page) -> tuple[int, str]:
    return list(FOLDERS.values()).index(page.category), page.id
