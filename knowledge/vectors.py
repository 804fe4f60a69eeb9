"""Search by meaning, as this package sees it: passages go out, neighbours come back, and both
rankings become one.

The library is given an object that makes and keeps vectors; without it only words and signals are
used.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from . import sections
from .page import Page
from .search import Hit

# Reciprocal rank fusion (Cormack, Clarke and Büttcher, SIGIR 2009), chosen with
# benchmarks/retrieval.py
RANK_OFFSET = 30  # with a larger offset the first places differ less
VECTOR_SHARE = 0.3  # weight of a place by meaning, relative to one by words and signals
DEPTH = 50  # pages by meaning that are included


@dataclass(frozen=True)
class Passage:
    """The text for one vector. section: heading of its section, "" for the page's head and the
    phrases by which it is asked for."""

    page: str
    section: str
    text: str


@dataclass(frozen=True)
class Near:
    """A neighbour. closeness: cosine between the query and the page's nearest passage, -1..1.
    section: that passage's."""

    closeness: float
    section: str


@dataclass(frozen=True)
class Neighbours:
    """The neighbours of a query. pages: by id, nearest first; empty while there are no vectors.
    strange: whether even the nearest is too far to be about the query, by a limit measured for this
    model. note: why there are none, for a reader; "" otherwise."""

    pages: Mapping[str, Near] = field(default_factory=dict)
    strange: bool = False
    note: str = ""


class Nearness(Protocol):
    """Finds passages by meaning. Used from several threads; it raises nothing: errors are in the
    note."""

    def nearest(self, query: str, pages: Collection[str], limit: int) -> Neighbours:
        """Return up to `limit` of these pages."""
        ...

    def close(self) -> None: ...


MakeNearness = Callable[[Sequence[Passage]], Nearness]


def passages(pages: Iterable[Page]) -> tuple[Passage, ...]:
    """Return the passages of each page: its head, each phrase by which it is asked for, and its
    sections with the page's title."""
    found = list[Passage]()
    for page in pages:
        found.append(
            Passage(page.id, "", f"{page.title}. {page.summary} {', '.join(page.keywords)}")
        )
        found += [Passage(page.id, "", phrase) for phrase in page.asked_as]
        found += [
            Passage(page.id, part.heading, f"{page.title}: {part.heading}\n{part.text}")
            for part in sections.split(page.body)
        ]
    return tuple(found)


def fuse(hits: Sequence[Hit], near: Mapping[str, Near], pages: Mapping[str, Page]) -> list[Hit]:
    """Return both rankings as one, best first; ties by id. The existing scores are assigned to the
    new places in order, so that they still decrease: a page found only by meaning gets the score of
    its place."""
    if not near:
        return list(hits)
    close = dict(list(near.items())[:DEPTH])
    known = {hit.id: hit for hit in hits}
    weight = {hit.id: 1 / (RANK_OFFSET + place) for place, hit in enumerate(hits, 1)}
    for place, page_id in enumerate(close, 1):
        weight[page_id] = weight.get(page_id, 0.0) + VECTOR_SHARE / (RANK_OFFSET + place)
    ranked = sorted(weight, key=lambda page_id: (-weight[page_id], page_id))
    scores = sorted((hit.score for hit in hits), reverse=True)
    found = []
    for place, page_id in enumerate(ranked):
        hit = known.get(page_id) or _alone(pages[page_id], close[page_id])
        score = scores[place] if place < len(scores) else 0.0
        found.append(replace(_told(hit, close.get(page_id)), score=score))
    return found


def _alone(page: Page, near: Near) -> Hit:
    return Hit(page.id, page.title, page.category, "", page.summary, 0.0, near.section)


def _told(hit: Hit, near: Near | None) -> Hit:
    if near is None:
        return hit
    return replace(hit, why="; ".join(filter(None, (hit.why, f"meaning: {near.closeness:.2f}"))))
