"""Start the server."""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

from mcp.server import CacheHint, MCPServer

import harness
import knowledge
from kevolve_mcp import __version__
from kevolve_mcp.errors import KEvolveError
from kevolve_mcp.sessions import Service
from kevolve_mcp.settings import Settings

from . import prompts, resources, tools
from .context import App
from .instructions import INSTRUCTIONS
from .shadow import check_shadowing
from .teach import Teach, slim

ServiceFactory = Callable[[Settings], Service]


def build_server(settings: Settings | None = None, service: ServiceFactory = Service) -> MCPServer[App]:
    """The MCP server with its tools, prompts and resources. `service` makes the service of each connection."""
    chosen = settings or Settings()

    @asynccontextmanager
    async def lifespan(server: MCPServer[App]) -> AsyncIterator[App]:
        async with service(chosen) as running:
            yield App(running, chosen)

    teach = Teach()
    server: MCPServer[App] = MCPServer(
        "kevolve",
        title="KEvolve",
        version=__version__,
        instructions=INSTRUCTIONS,
        lifespan=lifespan,
        log_level="WARNING",
        extensions=[teach],
        cache_hints={"tools/list": CacheHint(ttl_ms=300_000, scope="public")},
    )
    teach.attach(server)
    tools.register(server)
    prompts.register(server)
    resources.register(server)
    slim(server)
    return server


def serve(settings: Settings | None = None) -> None:
    """Serve stdio until the client closes it. Raises KEvolveError when it cannot start."""
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    check_shadowing(harness, knowledge)
    build_server(settings).run("stdio")


def main(arguments: Sequence[str] | None = None) -> int:
    """`kevolve-mcp`: serve stdio. Messages go to stderr; stdout belongs to the protocol."""
    parser = argparse.ArgumentParser(
        prog="kevolve-mcp", description="KEvolve's MCP server over stdio. Settings: KEVOLVE_* variables."
    )
    parser.add_argument("--version", action="version", version=f"kevolve-mcp {__version__}")
    parser.add_argument("--home", default=None, help="folder of database, artifacts and exports")
    parser.add_argument("--python", default=None, help="interpreter that evaluates")
    given = {name: value for name, value in vars(parser.parse_args(arguments)).items() if value is not None}
    try:
        serve(Settings(**given))
    except KEvolveError as error:
        print(f"kevolve-mcp: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
