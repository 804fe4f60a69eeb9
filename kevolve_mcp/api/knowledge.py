"""What was found among the pages, and one page. It imports nothing at run time: whoever looks
something up needs nothing of the search."""

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
    """What of the question matched."""
    snippet: str
    score: float = 0.0
    section: str = ""
    """Heading of the section that fits best, "" for the beginning of the page."""


@dataclass(frozen=True)
class Hits:
    """What a search found."""

    hits: tuple[Hit, ...]
    total: int
    """How many there are; `hits` may be a part of them."""
    next_cursor: int | None = None
    """Where the following ones begin; None: there are none."""
    note: str = ""
    """What of the question was not understood."""
    fits: bool = True
    """False when there is no page on this; the hits are then the nearest."""


@dataclass(frozen=True)
class Page:
    """A page, or a piece of it."""

    id: str
    title: str
    text: str
    next_offset: int | None = None
    """Where the rest begins; None: there is none."""


def hits(results: Results) -> Hits:
    """Show what a search found."""
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
        text: Its text as a reader gets it, quoted where other sessions worded it.
    """
    return Page(reading.id, reading.title, text, reading.next_offset)
