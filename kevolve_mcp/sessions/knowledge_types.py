"""What looking something up comes to: apart from the other answers, since it needs nothing of the
search."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class KnowledgeHit:
    """section: heading of the section that fits best, "" for the beginning of the page."""

    id: str
    title: str
    category: str
    why: str
    snippet: str
    score: float = 0.0
    section: str = ""


@dataclass(frozen=True)
class KnowledgeHits:
    """fits: False when there is no page on this; the hits are then the nearest."""

    hits: tuple[KnowledgeHit, ...]
    total: int
    next_cursor: int | None = None
    note: str = ""
    fits: bool = True


@dataclass(frozen=True)
class KnowledgePage:
    id: str
    title: str
    text: str
    next_offset: int | None = None
