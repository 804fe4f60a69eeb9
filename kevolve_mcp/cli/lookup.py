"""How commands that only look get their answers: from the service in this process, or from a
running server.

In this process no protocol lies between, since importing one takes longer than any of them: the
same views, in the same words. That service runs no job; it would be gone before the end.
"""

from __future__ import annotations

import gc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio
import typer

if TYPE_CHECKING:
    from kevolve_mcp.driver import Answer, Tools
    from kevolve_mcp.driver.tools import ProgressListener
    from kevolve_mcp.sessions import Service

    from .remote import Remote


def place(server: str, token: str) -> Remote | None:
    """The running server that the options or the environment name. Raises UsageError,
    StoreError."""
    from kevolve_mcp.settings import Settings

    if not (server or token or Settings().server):
        return None
    from .remote import find_remote

    found = find_remote(server, token)
    if found is not None and found.warning:
        typer.echo(f"warning: {found.warning}", err=True)
    return found


def look_up(tool: str, arguments: dict[str, Any], remote: Remote | None = None) -> Answer:
    """One call of a tool that only looks. Raises the KEvolveError that it ends with."""

    async def run() -> Answer:
        async with _tools(remote) as tools:
            return await tools.call(tool, arguments)

    return anyio.run(run)


def look_through(
    tool: str, arguments: dict[str, Any], remote: Remote | None = None
) -> list[Answer]:
    """All parts of an answer that comes in several, each of which says where the next one begins.
    Raises as `look_up`."""

    async def run() -> list[Answer]:
        parts: list[Answer] = []
        offset: int | None = 0
        async with _tools(remote) as tools:
            while offset is not None:
                parts.append(await tools.call(tool, {**arguments, "offset": offset}))
                offset = parts[-1].data.get("next_cursor")
        return parts

    return anyio.run(run)


class _Here:
    """`Tools` that only look, on a service in this process."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def call(
        self, tool: str, arguments: dict[str, Any], progress: ProgressListener | None = None
    ) -> Answer:
        from kevolve_mcp.driver.tools import Answer
        from kevolve_mcp.server import looking

        looks = {
            "tree_view": looking.tree,
            "knowledge_search": looking.search,
            "knowledge_read": looking.read,
        }
        phrase, reply = await looks[tool](self._service, **arguments)  # type: ignore[operator]
        return Answer(reply.model_dump(mode="json"), phrase.body)


@asynccontextmanager
async def _tools(remote: Remote | None) -> AsyncIterator[Tools]:
    if remote is not None:
        from .connect import running

        async with running(remote) as connection:
            yield connection
        return
    gc.disable()  # collecting takes a tenth of the time of this import, and finds nothing
    try:
        from kevolve_mcp.sessions import Service
    finally:
        gc.freeze()
        gc.enable()

    async with Service(looks_only=True) as service:
        yield _Here(service)
