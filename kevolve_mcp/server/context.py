"""What a tool call can reach: the service of this process, the settings, and the files that the caller may name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mcp.server.mcpserver import Context

from kevolve_mcp.sessions import Service
from kevolve_mcp.settings import Settings

from .reach import Reach


@dataclass(frozen=True)
class App:
    """Lives as long as the connection (stdio) or the process (HTTP)."""

    service: Service
    settings: Settings
    reach: Reach


def app(ctx: Context[Any]) -> App:
    """The App of this call."""
    found = ctx.request_context.lifespan_context
    assert isinstance(found, App)
    return found


def service(ctx: Context[Any]) -> Service:
    return app(ctx).service


def reach(ctx: Context[Any]) -> Reach:
    return app(ctx).reach


def author(ctx: Context[Any]) -> str:
    """Who takes an ask: the client's name and version, "" where the client does not say."""
    params = ctx.session.client_params
    return f"{params.client_info.name} {params.client_info.version}".strip() if params else ""
