"""Tools that only look, without the protocol: the command line in the same process needs none."""

from __future__ import annotations

from collections.abc import Sequence

from harness.types import to_json
from kevolve_mcp.sessions import Service

from .phrase import Phrase
from .results import KnowledgeReply, ViewReply
from .wording import rest


async def tree(
    service: Service,
    session_id: str = "",
    node_id: str = "",
    evaluation_id: str = "",
    diff_base: str = "",
    section: str = "",
    cursor: int = 0,
    response_format: str = "concise",
) -> tuple[Phrase, ViewReply]:
    """tree_view."""
    given = {
        "session_id": session_id,
        "node_id": node_id,
        "evaluation_id": evaluation_id,
        "diff_base": diff_base,
        "section": section,
    }
    view = await service.tree(**given, cursor=cursor, detailed=response_format == "detailed")
    verdict, _, more = view.text.partition("\n")
    call = "none"
    if view.next_cursor:
        named = ", ".join(f"{name}={value!r}" for name, value in given.items() if value)
        call = f"tree_view({named}{', ' if named else ''}cursor={view.next_cursor}) for the rest"
    elif view.kind == "tree" and view.session is not None and view.session.state == "open":
        call = f"session_next(session_id={view.session.id!r})"
    elif view.kind == "template":
        call = f"fill it in, then kernel_check(session_id={session_id!r}, source=...)"
    data = to_json(view)
    for name in ("text", "next_cursor", "kind"):
        data.pop(name)
    data = {name: value for name, value in data.items() if value}
    reply = ViewReply(
        verdict=verdict, next=call, kind=view.kind, data=data, next_cursor=view.next_cursor
    )
    return Phrase(verdict, call, [more] if more else []), reply


async def search(
    service: Service,
    query: str = "",
    signals: Sequence[str] | None = None,
    target: str = "",
    language: str = "",
    limit: int = 5,
    cursor: int = 0,
) -> tuple[Phrase, KnowledgeReply]:
    """knowledge_search."""
    found = await service.search(
        query,
        signals=tuple(signals or ()),
        target=target,
        language=language,
        limit=limit,
        cursor=cursor,
    )
    phrase = rest.hits(found)
    reply = KnowledgeReply(
        verdict=phrase.verdict,
        next=phrase.next,
        hits=[to_json(h) for h in found.hits],
        note=found.note,
        fits=found.fits,
        next_cursor=found.next_cursor,
    )
    return phrase, reply


async def read(service: Service, page_id: str, offset: int = 0) -> tuple[Phrase, KnowledgeReply]:
    """knowledge_read."""
    view = await service.read(page_id, offset=offset)
    phrase = rest.page(view)
    reply = KnowledgeReply(
        verdict=phrase.verdict, next=phrase.next, page_id=view.id, next_cursor=view.next_offset
    )
    return phrase, reply
