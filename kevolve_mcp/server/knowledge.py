"""knowledge_search and knowledge_read without the protocol: the command line in the same process
needs none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from .phrase import Phrase
from .results import KnowledgeReply, said
from .wording import knowledge as wording

if TYPE_CHECKING:
    from kevolve_mcp.sessions import Knowledge


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
    found = await known.search(
        query,
        signals=tuple(signals or ()),
        target=target,
        language=language,
        limit=limit,
        cursor=cursor,
    )
    phrase = wording.hits(found)
    reply = KnowledgeReply(
        **said(phrase),
        hits=[asdict(hit) for hit in found.hits],
        total=found.total,
        note=found.note,
        fits=found.fits,
        next_cursor=found.next_cursor,
    )
    return phrase, reply


async def read(known: Knowledge, page_id: str, offset: int = 0) -> tuple[Phrase, KnowledgeReply]:
    """knowledge_read."""
    view = await known.read(page_id, offset=offset)
    phrase = wording.page(view)
    reply = KnowledgeReply(**said(phrase), page_id=view.id, next_cursor=view.next_offset)
    return phrase, reply
