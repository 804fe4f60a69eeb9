"""tree_view."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from mcp.server.mcpserver import Context
from mcp.types import CallToolResult
from pydantic import Field

from harness.types import to_json

from ..answer import Phrase, answer
from ..context import service
from ..results import ViewReply


async def tree_view(
    ctx: Context[Any],
    session_id: Annotated[str, Field(description="Default: list all sessions")] = "",
    node_id: Annotated[str, Field(description='One node, e.g. "n17"')] = "",
    evaluation_id: Annotated[str, Field(description='One evaluation, e.g. "e12"')] = "",
    diff_with: Annotated[str, Field(description='Another node (or "parent"): the difference of sources from it to node_id')] = "",
    section: Annotated[
        Literal["", "summary", "source", "log", "profile", "assembly", "cases", "stages", "context"],
        Field(description="Of a node or evaluation; assembly: listings of compiled kernels; context: what its author was shown"),
    ] = "",
    cursor: Annotated[int, Field(ge=0, description="Where to go on, from next_cursor")] = 0,
    response_format: Annotated[
        Literal["concise", "detailed"], Field(description="detailed: every node with hypothesis and signals")
    ] = "concise",
) -> Annotated[CallToolResult, ViewReply]:
    """Look without changing anything: the list of sessions, a session's tree, a node's or evaluation's source, log, profile and
    cases, or the difference between two nodes. Long texts come in pieces; next_cursor says where to go on."""
    view = await service(ctx).tree(
        session_id,
        node_id=node_id,
        evaluation_id=evaluation_id,
        diff_with=diff_with,
        section=section,
        cursor=cursor,
        detailed=response_format == "detailed",
    )
    verdict, _, rest = view.text.partition("\n")
    call = "none"
    if view.next_cursor:
        given = {
            "session_id": session_id,
            "node_id": node_id,
            "evaluation_id": evaluation_id,
            "diff_with": diff_with,
            "section": section,
        }
        named = ", ".join(f"{name}={value!r}" for name, value in given.items() if value)
        call = f"tree_view({named}{', ' if named else ''}cursor={view.next_cursor}) for the rest"
    elif view.kind == "tree" and view.session is not None and view.session.state == "open":
        call = f"session_next(session_id={view.session.id!r})"
    phrase = Phrase(verdict, call, [rest] if rest else [])
    data = to_json(view)
    for name in ("text", "next_cursor", "kind"):
        data.pop(name)
    data = {name: value for name, value in data.items() if value}
    reply = ViewReply(verdict=verdict, next=call, kind=view.kind, data=data, next_cursor=view.next_cursor)
    return answer(phrase, reply)
