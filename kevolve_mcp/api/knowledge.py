"""Search results and pages of the knowledge. It imports nothing at run time, since looking up a
page needs nothing of the search."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from knowledge import Reading, Results


@dataclass(frozen=True)
class Hit:
    """A page that was found."""

    id: str
    title: str
    category: str
    why: str
    """The part of the question that matched."""
    snippet: str
    score: float = 0.0
    section: str = ""
    """Heading of the section that fits best, "" for the beginning of the page."""


@dataclass(frozen=True)
class Hits:
    """The results of a search."""

    hits: tuple[Hit, ...]
    total: int
    """The number of all hits; `hits` may be a part of them."""
    next_cursor: int | None = None
    """Where the next hits begin; None if there are no more."""
    note: str = ""
    """Parts of the question that were not understood."""
    fits: bool = True
    """False when no page matches well; the hits are then the nearest."""


@dataclass(frozen=True)
class Page:
    """A page, or a part of it."""

    id: str
    title: str
    text: str
    next_offset: int | None = None
    """Where the rest begins; None at the end."""


def hits(results: Results) -> Hits:
    """Show the results of a search."""
    return Hits(
        tuple(
            Hit(h.id, h.title, h.category, h.why, h.snippet, h.score, h.section)
            for h in results.hits
        ),
        results.total,
        results.next_cursor,
        results.note,
        results.fits,
    )


def page(reading: Reading, text: str) -> Page:
    """Show a page.

    Args:
        reading: The domain's value.
        text: Its text as a reader gets it, quoted where other sessions wrote it.
    """
    return Page(reading.id, reading.title, text, reading.next_offset)
