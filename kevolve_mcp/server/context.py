"""What a tool call can reach: the service of this process, the settings, and the files that the
caller may name."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mcp.server.mcpserver import Context

from kevolve_mcp.settings import Settings

from .deferred import Deferred
from .reach import Reach

if TYPE_CHECKING:
    from kevolve_mcp.sessions import Service


@dataclass(frozen=True)
class App:
    """Lives as long as the connection (stdio) or the process (HTTP)."""

    service: Deferred
    settings: Settings
    reach: Reach


def app(ctx: Context[Any]) -> App:
    """The App of this call."""
    found = ctx.request_context.lifespan_context
    assert isinstance(found, App)
    return found


async def service(ctx: Context[Any]) -> Service:
    """The service, made now if this call is the first that needs it."""
    return await app(ctx).service.get()


def reach(ctx: Context[Any]) -> Reach:
    return app(ctx).reach


def author(ctx: Context[Any]) -> str:
    """The client's name and version, "" where the client does not say."""
    params = ctx.session.client_params
    return f"{params.client_info.name} {params.client_info.version}".strip() if params else ""


def caller(ctx: Context[Any]) -> str:
    """Who takes asks and hands in kernels: the author, over HTTP with a mark of its connection,
    since clients of one name share the server."""
    connection = _connection(ctx)
    mark = f" #{hashlib.sha256(connection.encode()).hexdigest()[:8]}" if connection else ""
    return f"{author(ctx)}{mark}"


def told_apart(ctx: Context[Any]) -> bool:
    """Whether two clients that call are two callers. Over HTTP without connections they may look
    the same."""
    return ctx.headers is None or bool(_connection(ctx))


def _connection(ctx: Context[Any]) -> str:
    return (ctx.headers or {}).get("mcp-session-id", "")
