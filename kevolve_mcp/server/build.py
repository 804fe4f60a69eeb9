"""The server object: tools, prompts, resources, and the service that each connection gets."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from mcp.server import CacheHint, MCPServer

from kevolve_mcp import __version__
from kevolve_mcp.sessions import Service
from kevolve_mcp.settings import Settings

from . import prompts, resources, tools
from .context import App
from .instructions import INSTRUCTIONS
from .reach import ANYWHERE, Reach
from .teach import Teach

ServiceFactory = Callable[[Settings], Service]


def build_server(
    settings: Settings | None = None, service: ServiceFactory = Service, reach: Reach = ANYWHERE
) -> MCPServer[App]:
    """The MCP server. `service` makes the service of each connection (of the process, over HTTP);
    its store opens at the first call that needs it. reach: which files callers may name."""
    chosen = settings or Settings()

    @asynccontextmanager
    async def lifespan(server: MCPServer[App]) -> AsyncIterator[App]:
        async with service(chosen) as running:
            yield App(running, chosen, reach)

    teach = Teach()
    server: MCPServer[App] = MCPServer(
        "kevolve",
        title="KEvolve",
        version=__version__,
        instructions=INSTRUCTIONS + reach.note,
        tools=list(tools.described()),
        lifespan=lifespan,
        log_level="WARNING",
        extensions=[teach],
        cache_hints={"tools/list": CacheHint(ttl_ms=300_000, scope="public")},
    )
    teach.attach(server)
    prompts.register(server)
    resources.register(server)
    return server
