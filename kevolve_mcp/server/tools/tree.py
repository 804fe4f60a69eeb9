"""tree_view."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from mcp.server.mcpserver import Context
from mcp.types import CallToolResult
from pydantic import Field

from .. import looking
from ..answer import answer
from ..context import service
from ..results import ViewReply


async def tree_view(
    ctx: Context[Any],
    session_id: Annotated[str, Field(description="Default: list all sessions")] = "",
    node_id: Annotated[str, Field(description='One node, e.g. "n17"')] = "",
    evaluation_id: Annotated[str, Field(description='One evaluation, e.g. "e12"')] = "",
    diff_base: Annotated[
        str,
        Field(
            description='Another node (or "parent"): the difference of sources from it to node_id'
        ),
    ] = "",
    section: Annotated[
        Literal[
            "",
            "summary",
            "source",
            "log",
            "profile",
            "assembly",
            "cases",
            "stages",
            "context",
            "template",
        ],
        Field(
            description=(
                "Of a node or evaluation; context: what its author saw; template: of a session, to "
                "fill in"
            )
        ),
    ] = "",
    cursor: Annotated[int, Field(ge=0, description="Where to go on, from next_cursor")] = 0,
    response_format: Annotated[
        Literal["concise", "detailed"],
        Field(description="detailed: every node with hypothesis and signals"),
    ] = "concise",
) -> Annotated[CallToolResult, ViewReply]:
    """Look without changing anything: the list of sessions, a session's tree, a node's or
    evaluation's source, log, profile and cases, or the difference between two nodes. Long texts
    come in pieces; next_cursor says where to go on."""
    return answer(
        *await looking.tree(
            await service(ctx),
            session_id,
            node_id,
            evaluation_id,
            diff_base,
            section,
            cursor,
            response_format=response_format,
        )
    )
