"""The backend on this machine. Reading, deciding and judging run in this process; a server is built
where a tool runs jobs, and started as a process where it has to outlive or be outlived.

Read-only commands need neither protocol nor service, whose import takes longer than any of these
commands: they show the same views in the same words straight from the home. A person's decision
goes through a service that runs no job, since the process would end before the job.
Commands that start a job and wait for it build the server in this process and call it in memory:
one import instead of two processes, the same tools and the same answers.

`optimize` starts the server as a process of its own and talks to it over stdio, as every other
client does, so that either side can be killed alone. When the server dies, the driver starts
another one on the same home and goes on. When the driver dies, the server's stdin closes, and the
server ends together with its workers. The process is started as `python -P -m
kevolve_mcp.cli.serve` with this interpreter: -P keeps the current folder (which may hold a user's
`harness/`) off the import path, while -I would also lose packages installed for the user alone.
"""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from anyio import CancelScope

from kevolve_mcp.errors import StoreError
from kevolve_mcp.lazy import nothing_is_garbage
from kevolve_mcp.settings import Settings

from .. import serve
from ..files import read_text

if TYPE_CHECKING:
    from mcp.server import MCPServer

    from kevolve_mcp.driver import Answer, Connection, OpenClient, Tools
    from kevolve_mcp.driver.tools import ProgressListener
    from kevolve_mcp.executors.base import Executor
    from kevolve_mcp.server.diagnosis import Diagnosis
    from kevolve_mcp.server.results import KnowledgeReply, Phrase, ViewReply
    from kevolve_mcp.sessions import Home, Service
    from kevolve_mcp.sessions.types import Text

    from ..judging import FileOrder
    from .base import Announce, FileJudge

    Look = Callable[..., Awaitable[tuple[Phrase, ViewReply | KnowledgeReply]]]


class Local:
    """A `Backend` on this machine's home."""

    shares_files = True

    def text(self, path: Path, what: str) -> Text:
        """Return the path, after checking that it can be read."""
        from kevolve_mcp.sessions.types import Text

        read_text(path, what)
        return Text(path=str(path.expanduser().absolute()))

    @asynccontextmanager
    async def looking(self) -> AsyncIterator[Tools]:
        from kevolve_mcp.sessions import Home

        home = Home(Settings())
        try:
            yield _Looking(home)
        finally:
            with CancelScope(shield=True):
                await home.close()

    @asynccontextmanager
    async def tools(self, python: str = "") -> AsyncIterator[Tools]:
        from mcp import Client

        from kevolve_mcp.driver import connect

        from .base import identity

        def client() -> Client:
            return Client(make_server(python=python), client_info=identity("kevolve"))

        async with connect(client) as connection:
            yield connection

    @asynccontextmanager
    async def connection(
        self, restarted: Callable[[str], None], *, debug: bool = False
    ) -> AsyncIterator[Connection]:
        from kevolve_mcp.driver import connect

        with ExitStack() as stack:
            log = sys.stderr if debug else stack.enter_context(_log(Settings().home))
            async with connect(stdio(log), restarted, f"Its log: {log.name}") as connection:
                yield connection

    @asynccontextmanager
    async def judge(
        self, order: FileOrder, announce: Announce, *, python: str = "", fresh: bool = False
    ) -> AsyncIterator[FileJudge]:
        from ..judging import opened

        async with open_executor(python, order.task.parent) as executor:
            yield await opened(executor, order, announce, fresh=fresh)

    async def template(self, task: Path, target: str, language: str, python: str = "") -> str:
        from kevolve_mcp.synthesis.templates import template_candidate

        source = read_text(task, "task")
        async with open_executor(python, task.parent) as executor:
            opened = await executor.open_task(source, str(task), target, timed=False)
            return template_candidate(opened, language).source

    async def diagnose(self, python: str = "") -> Diagnosis:
        from kevolve_mcp.server.diagnosis import diagnose

        async with open_executor(python, Path.cwd()) as executor:
            return await diagnose(executor, Settings())

    def home(self, what: str) -> Path:
        return Settings().home

    @asynccontextmanager
    async def service(self, what: str) -> AsyncIterator[Service]:
        with nothing_is_garbage():
            from kevolve_mcp.sessions import Service

        async with Service(executors=open_executor, looks_only=True) as service:
            yield service


class _Looking:
    """Read-only `Tools` on a home, in this process. Each imports only what it needs."""

    def __init__(self, home: Home) -> None:
        self._home = home

    async def call(
        self, tool: str, arguments: dict[str, Any], progress: ProgressListener | None = None
    ) -> Answer:
        from kevolve_mcp.driver.tools import Answer

        with nothing_is_garbage():
            phrase, reply = await _LOOKS[tool](self._home)(**arguments)
        return Answer(reply.model_dump(mode="json"), phrase.body)


def _tree_view(home: Home) -> Look:
    from kevolve_mcp.server import looking
    from kevolve_mcp.sessions import Looking

    return partial(looking.tree, Looking(home))


def _knowledge_search(home: Home) -> Look:
    from kevolve_mcp.server import knowledge
    from kevolve_mcp.sessions import Knowledge

    return partial(knowledge.search, Knowledge(home))


def _knowledge_read(home: Home) -> Look:
    from kevolve_mcp.server import knowledge
    from kevolve_mcp.sessions import Knowledge

    return partial(knowledge.read, Knowledge(home))


_LOOKS = {
    "tree_view": _tree_view,
    "knowledge_search": _knowledge_search,
    "knowledge_read": _knowledge_read,
}


def open_executor(python: str, near: Path | None) -> Executor:
    """Return this machine's judge.

    Args:
        python: The interpreter that evaluates, "" to look for one.
        near: The folder near which to look.
    """
    from kevolve_mcp.executors.local import LocalExecutor

    settings = Settings()
    return LocalExecutor(
        python or None, cache=settings.cache, near=near, configured=settings.python
    )


def make_server(*, python: str = "") -> MCPServer[Any]:
    """Build the server in this process, imported when first needed. python: the interpreter that
    evaluates instead of the configured one."""
    from kevolve_mcp.server import build_server

    return build_server(Settings(python=python) if python else Settings())


def stdio(log: TextIO) -> OpenClient:
    """Return a factory of clients, each of which starts a server and ends it. log: takes the
    server's stderr; must have a file descriptor."""
    from mcp import Client, StdioServerParameters, stdio_client

    from .base import identity

    server = StdioServerParameters(
        command=sys.executable, args=list(serve.SERVER), env=dict(os.environ)
    )
    return lambda: Client(
        stdio_client(server, errlog=log), client_info=identity("kevolve optimize")
    )


@contextmanager
def _log(home: Path) -> Iterator[TextIO]:
    """The file for the server's stderr during `optimize`, so that it does not disturb the display;
    removed if it stays empty. Raises StoreError."""
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
