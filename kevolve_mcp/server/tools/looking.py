"""The read-only tools: target_describe, tree_view, knowledge_search, knowledge_read."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from mcp.server.mcpserver import Context
from mcp.types import CallToolResult
from pydantic import Field

from harness.types import to_json

from .. import knowledge, looking
from ..arguments import parse_target
from ..context import service
from ..jobs import with_progress
from ..results import KnowledgeReply, MachineReply, ViewReply, answer, said
from ..wording import rest


async def target_describe(
    ctx: Context[Any], target: Annotated[str, Field(description="Only this one; default: all")] = ""
) -> Annotated[CallToolResult, MachineReply]:
    """Describe which targets, languages, profilers, interpreters and isolation levels work on the
    server's machine, and why the others don't. The first call starts the evaluator (seconds). Use
    it when session_open refuses a target."""
    name = parse_target(target) if target else ""
    running = await service(ctx)
    view = await with_progress(ctx, lambda progress: running.describe(name))
    phrase = rest.machine(view, name)
    return answer(phrase, MachineReply(**said(phrase), machine=to_json(view)))


async def tree_view(
    ctx: Context[Any],
    session_id: Annotated[str, Field(description="Default: list all sessions")] = "",
    node_id: Annotated[str, Field(description='One node, e.g. "n17"')] = "",
    evaluation_id: Annotated[
        str, Field(description='One of its evaluations, e.g. "e12"; outside of sessions "x12"')
    ] = "",
    diff_base: Annotated[
        str,
        Field(description='Node (or "parent") from which to show the source difference to node_id'),
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
                "Of a node or evaluation; context: what its author saw; template: a candidate file "
                "to fill in, of a session"
            )
        ),
    ] = "",
    cursor: Annotated[int, Field(ge=0, description="Where to go on, from next_cursor")] = 0,
    response_format: Annotated[
        Literal["concise", "detailed"],
        Field(description="detailed: every node with hypothesis and signals"),
    ] = "concise",
) -> Annotated[CallToolResult, ViewReply]:
    """Show, without changing anything, the list of sessions, a session's tree, a node's or
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
