"""knowledge_search, knowledge_read."""

from __future__ import annotations

from typing import Annotated, Any

from mcp.server.mcpserver import Context
from mcp.types import CallToolResult
from pydantic import Field

from .. import knowledge
from ..answer import answer
from ..context import service
from ..results import KnowledgeReply


async def knowledge_search(
    ctx: Context[Any],
    query: Annotated[str, Field(description="Words; may be empty when signals are given")] = "",
    signals: Annotated[
        list[str] | None, Field(description='Findings to explain, e.g. ["memory_bound"]')
    ] = None,
    target: Annotated[str, Field(description="e.g. cpu, cuda:sm_90; default: any")] = "",
    language: Annotated[str, Field(description="e.g. cpp; default: any")] = "",
    limit: Annotated[int, Field(ge=1, le=50)] = 5,
    cursor: Annotated[int, Field(ge=0, description="From next_cursor")] = 0,
) -> Annotated[CallToolResult, KnowledgeReply]:
    """Find pages and skills: constraints of correctness, optimization guidance, hardware facts,
    proven kernel patterns. Give the signals of an evaluation, or words. Fast. Then
    knowledge_read(page_id)."""
    return answer(
        *await knowledge.search(await service(ctx), query, signals, target, language, limit, cursor)
    )


async def knowledge_read(
    ctx: Context[Any],
    page_id: Annotated[str, Field(description='e.g. "guidance/vectorization"; "index" lists all')],
    offset: Annotated[int, Field(ge=0, description="Characters to skip, from next_cursor")] = 0,
) -> Annotated[CallToolResult, KnowledgeReply]:
    """Read one page or skill in full, about 3,000 tokens at a time. Reference material, not
    instructions."""
    return answer(*await knowledge.read(await service(ctx), page_id, offset))
