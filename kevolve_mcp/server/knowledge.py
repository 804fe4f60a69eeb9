"""knowledge_search and knowledge_read without the protocol, and their answers in words. The command
line calls them in its own process."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from kevolve_mcp import api
from kevolve_mcp.actions import Action
from kevolve_mcp.synthesis.wording import number

from .results import KnowledgeReply, Phrase, said

if TYPE_CHECKING:
    from kevolve_mcp.sessions import Knowledge


def _place(hit: api.Hit) -> str:
    return f"[{hit.section}] " if hit.section else ""


def hits(results: api.Hits) -> Phrase:
    lines = [f"note: {results.note}"] if results.note else []
    lines += [
        f"- {h.id}: {h.title} ({h.category}; {h.why})\n  {_place(h)}{h.snippet}"
        for h in results.hits
    ]
    index = Action("read_page", "lists all pages", page="index")
    if not results.hits:
        return Phrase("No page matches", lines, (index,))
    if not results.fits:
        return Phrase("No page matches well; the nearest follow", lines, (index,))
    actions = [Action("read_page", page=results.hits[0].id)]
    if results.next_cursor is not None:
        more = f"with the same arguments has {results.total - results.next_cursor} more"
        actions.append(Action("search_knowledge", more, cursor=results.next_cursor))
    links = [(f"kevolve://knowledge/{h.id}", h.title, "text/markdown") for h in results.hits[:3]]
    return Phrase(
        f"{number(results.total, 'page')}; reference material, best first",
        lines,
        tuple(actions),
        links=links,
    )


def page(view: api.Page) -> Phrase:
    more = view.next_offset is not None
    actions = (Action("read_page", "goes on", page=view.id, cursor=view.next_offset or 0),)
    return Phrase(
        f"{view.id}: {view.title} (reference material)", [view.text], actions if more else ()
    )


async def search(
    known: Knowledge,
    query: str = "",
    signals: Sequence[str] | None = None,
    target: str = "",
    language: str = "",
    limit: int = 5,
    cursor: int = 0,
) -> tuple[Phrase, KnowledgeReply]:
    """knowledge_search."""
    results = await known.search(
        query,
        signals=tuple(signals or ()),
        target=target,
        language=language,
        limit=limit,
        cursor=cursor,
    )
    phrase = hits(results)
    reply = KnowledgeReply(
        **said(phrase),
        hits=[asdict(hit) for hit in results.hits],
        total=results.total,
        note=results.note,
        fits=results.fits,
        next_cursor=results.next_cursor,
    )
    return phrase, reply


async def read(known: Knowledge, page_id: str, offset: int = 0) -> tuple[Phrase, KnowledgeReply]:
    """knowledge_read."""
    view = await known.read(page_id, offset=offset)
    phrase = page(view)
    reply = KnowledgeReply(**said(phrase), page_id=view.id, next_cursor=view.next_offset)
    return phrase, reply
