"""How the command line reaches the server.

`optimize` starts the server as a process of its own and talks to it over stdio, as every other
client does: the two sides can then be killed independently. When the server dies, the driver starts
another one on the same home and goes on; when the driver dies, the server's stdin closes, it ends
and takes its workers with it. The process is started as `python -P -m kevolve_mcp.cli.serve` with
this interpreter: -P keeps the current folder (which may hold a `harness/` of the user's own) off
the import path, while -I would also lose packages installed for the user alone.

Commands that start a job and wait for it build the server in this process and call it in memory:
one import instead of two processes, the same tools and the same answers. Those that only look
something up need no protocol: see lookup.

Both use a running server instead where one is named (--server, KEVOLVE_SERVER). It may be on
another machine, so files are read here and sent as text, and packages come back as text.
"""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import anyio
from mcp import Client, StdioServerParameters, stdio_client
from mcp.server import MCPServer
from mcp.types import Implementation

from kevolve_mcp.driver import Answer, Connection, OpenClient, Tools, connect
from kevolve_mcp.errors import StoreError

from . import serve

if TYPE_CHECKING:
    from .remote import Remote


@contextmanager
def open_log(home: Path) -> Iterator[TextIO]:
    """The file that takes the server's stderr during `optimize`, so that it does not disturb the
    display. One in which nothing was written is removed. Raises StoreError."""
    path = home / "logs" / f"server-{os.getpid()}.log"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        log = path.open("a", encoding="utf-8")
    except OSError as error:
        raise StoreError(
            f"{path} cannot be written: {error.strerror}",
            "Set KEVOLVE_HOME to a folder on a local disk.",
        ) from None
    with log:
        yield log
    if path.stat().st_size == 0:
        path.unlink()


def stdio(log: TextIO) -> OpenClient:
    """Each client that this makes starts a server and ends it again. log: takes its stderr; must
    have a file descriptor."""
    server = StdioServerParameters(
        command=sys.executable, args=list(serve.SERVER), env=dict(os.environ)
    )
    return lambda: Client(
        stdio_client(server, errlog=log), client_info=_identity("kevolve optimize")
    )


def in_memory(*, python: str = "") -> OpenClient:
    """Clients of a server in this process. python: evaluates instead of KEVOLVE_PYTHON."""
    return lambda: Client(make_server(python=python), client_info=_identity("kevolve"))


def make_server(*, python: str = "") -> MCPServer[Any]:
    """The server of this process, imported when it is first needed."""
    from kevolve_mcp.server import build_server
    from kevolve_mcp.settings import Settings

    return build_server(Settings(python=python) if python else Settings())


@asynccontextmanager
async def running(
    remote: Remote, on_restart: Callable[[str], None] | None = None, name: str = "kevolve"
) -> AsyncIterator[Connection]:
    """A running server, connected to again when it was lost."""
    from .remote import http

    why = f"Is it running? On its machine: kevolve serve --http. Here it is called {remote.url}."
    async with connect(http(remote, _identity(name)), on_restart, why, remote=True) as connection:
        yield connection


@asynccontextmanager
async def tools(remote: Remote | None = None, *, python: str = "") -> AsyncIterator[Tools]:
    """The server in this process, or the running one."""
    here = connect(in_memory(python=python))
    async with here if remote is None else running(remote) as connection:
        yield connection


def work(
    tool: str, arguments: dict[str, Any], remote: Remote | None = None, *, python: str = ""
) -> Answer:
    """One call of a tool that starts a job, which is waited for. python: of a server in this
    process. Raises as `look_up`."""

    async def run() -> Answer:
        async with tools(remote, python=python) as server:
            answer = await server.call(tool, arguments)
            while answer.data.get("state") == "running":
                answer = await server.call(
                    "job_wait", {"job_id": answer.data["job_id"], "wait_s": 20}
                )
            return answer

    return anyio.run(run)


def _identity(name: str) -> Implementation:
    return Implementation(name=name, version=version("kevolve-mcp"))
