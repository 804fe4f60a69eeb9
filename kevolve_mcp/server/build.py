"""The server object: tools, prompts, resources, and the service that each connection gets."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from mcp.server import CacheHint, MCPServer

from kevolve_mcp import __version__
from kevolve_mcp.settings import Settings

from . import instructions, resources, tools
from .context import App, deferred
from .file_access import ANY_FILE, FileAccess
from .teach import Teach

if TYPE_CHECKING:
    from kevolve_mcp.sessions import Service

ServiceFactory = Callable[[Settings], "Service"]


def usual_service(settings: Settings) -> Service:
    """Return the service of this machine, whose modules are imported when first needed."""
    from kevolve_mcp.sessions import Service

    return Service(settings)


def build_server(
    settings: Settings | None = None,
    service: ServiceFactory = usual_service,
    file_access: FileAccess = ANY_FILE,
    started: Callable[[App], None] = lambda app: None,
) -> MCPServer[App]:
    """Build the MCP server.

    Args:
        settings: Default: those of the environment.
        service: Makes the service at the first call that needs it: one per connection, over HTTP
            one per process.
        file_access: Which files callers may name.
        started: Called with the App at the start of each connection, over HTTP of the process.
    """
    chosen = settings or Settings()

    @asynccontextmanager
    async def lifespan(server: MCPServer[App]) -> AsyncIterator[App]:
        async with deferred(lambda: service(chosen)) as later:
            app = App(later, chosen, file_access)
            started(app)
            yield app

    teach = Teach()
    server: MCPServer[App] = MCPServer(
        "kevolve",
        title="KEvolve",
        version=__version__,
        instructions=instructions.INSTRUCTIONS + file_access.note,
        tools=list(tools.described()),
        lifespan=lifespan,
        log_level="WARNING",
        extensions=[teach],
        cache_hints={"tools/list": CacheHint(ttl_ms=300_000, scope="public")},
    )
    teach.attach(server)
    instructions.register(server)
    resources.register(server)
    return server
