"""Resources for clients that support them. Every fact in them also comes from a tool."""

from __future__ import annotations

from typing import Any

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ResourceNotFoundError

from kevolve_mcp.actions import sentences
from kevolve_mcp.errors import KEvolveError

from .calls import call
from .context import service

WHOLE = 10_000_000  # characters


def register(server: MCPServer[Any]) -> None:
    """Add the resources to the server."""
    server.resource(
        "kevolve://knowledge/index",
        name="knowledge_index",
        title="Index of the knowledge",
        mime_type="text/markdown",
    )(index)
    server.resource(
        "kevolve://knowledge/{+page_id}",
        name="knowledge_page",
        title="A knowledge page",
        mime_type="text/markdown",
    )(page)
    server.resource(
        "kevolve://sessions/{session_id}/nodes/{node_id}/source",
        name="node_source",
        title="A node's source",
        mime_type="text/x-python",
    )(node_source)
    server.resource(
        "kevolve://sessions/{session_id}/report",
        name="session_report",
        title="A session's report",
        mime_type="text/markdown",
    )(report)


def index() -> str:
    """All pages of the knowledge base, by category."""
    from knowledge import Library

    # a resource without variables cannot reach the service
    return Library.builtin().read("index", 0, WHOLE).text


async def page(page_id: str, ctx: Context[Any]) -> str:
    """One page of the knowledge base, whole."""
    return await _page(page_id, ctx)


async def node_source(session_id: str, node_id: str, ctx: Context[Any]) -> str:
    """The source text of one node."""
    try:
        return await (await service(ctx)).source(session_id, node_id)
    except KEvolveError as error:
        raise _not_found(error) from error


def _not_found(error: KEvolveError) -> ResourceNotFoundError:
    following = sentences(error.actions, call)
    return ResourceNotFoundError(" ".join(filter(None, (str(error), following))))


async def report(session_id: str, ctx: Context[Any]) -> str:
    """A session's tree, outcome and figures as one page."""
    try:
        return await (await service(ctx)).report(session_id)
    except KEvolveError as error:
        raise _not_found(error) from error


async def _page(page_id: str, ctx: Context[Any]) -> str:
    try:
        return await (await service(ctx)).page(page_id)
    except KEvolveError as error:
        raise _not_found(error) from error
