"""A connection that outlives the server: it is opened again when the other side dies.

Every tool that the driver calls may be repeated (opening joins the open session, an ask is answered
once, waiting changes nothing), so a call that was in flight when the connection broke is made again
on the next one.
"""

from __future__ import annotations

import builtins
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio
from anyio.abc import TaskStatus
from mcp import Client, MCPError
from mcp.types import CONNECTION_CLOSED, INVALID_REQUEST, REQUEST_TIMEOUT, CallToolResult

from kevolve_mcp.actions import Action
from kevolve_mcp.errors import KEvolveError, Unavailable, innermost, read_error

from .tools import Answer, ProgressListener

RESTARTS = 5  # in a row without one answered call between them
# for a server that others restart: about 50 s with the pauses between
REMOTE_RESTARTS = 8
# what a restarted HTTP server says of protocol sessions from before
FORGOTTEN = ("Session not found", "Session terminated")
ANSWER_S = 300.0  # the server bounds its waits to 45 s; a call that takes longer than this hangs
PAUSE_S = 0.2  # before the first restart; doubled for each further one in a row

OpenClient = Callable[[], AbstractAsyncContextManager[Client]]

_log = logging.getLogger(__name__)


class _Broken(Exception):
    """The connection ended during a call."""


@dataclass
class _Generation:
    """One connection, from its start until it breaks."""

    client: Client
    broken: anyio.Event = field(default_factory=anyio.Event)


class Connection:
    """`Tools` over an MCP client that `open_client` makes. Use `connect` to get one.

    Concurrency: calls may be made from many tasks. One task owns the client, as its cancel scopes
    require; it opens the next client when a caller finds the last one broken. Failure: after
    RESTARTS broken connections without an answered call between them every call raises Unavailable.
    For a remote server the number is REMOTE_RESTARTS, and none before the first connection held.
    """

    def __init__(
        self,
        open_client: OpenClient,
        on_restart: Callable[[str], None] | None = None,
        why: str = "",
        *,
        remote: bool = False,
    ) -> None:
        self._open_client = open_client
        self._why = why
        self._remote = remote
        self._was_there = False
        self._on_restart = on_restart or _log.warning
        self._generation: _Generation | None = None
        self._failure: Exception | None = None
        self._changed = anyio.Event()
        self._in_a_row = 0
        self._life = anyio.CancelScope(shield=True)

    async def call(
        self, tool: str, arguments: dict[str, Any], progress: ProgressListener | None = None
    ) -> Answer:
        while True:
            generation = await self._current()
            try:
                result = await _call(generation.client, tool, arguments, progress)
            except _Broken:
                generation.broken.set()
                if self._generation is generation:
                    self._generation = None
                continue
            self._in_a_row = 0
            return read_result(result)

    async def keep(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Own the client until `close`; started once by `connect`.

        Shielded: a run that is cancelled still has to tell the server what to stop.
        """
        task_status.started()
        with self._life:
            await self._keep()

    def close(self) -> None:
        """End the client, and the server that was started for it."""
        self._life.cancel()

    async def _keep(self) -> None:
        while True:
            try:
                reason = await self._live_once()
            # e.g. a server that cannot be built: a restart would not help
            except Exception as error:
                return self._fail(error)
            self._generation = None
            self._in_a_row += 1
            if self._remote and not self._was_there:
                return self._fail(Unavailable(f"no server answers: {reason}", self._why))
            if self._in_a_row > (REMOTE_RESTARTS if self._remote else RESTARTS):
                said = "did not answer" if self._remote else "ended"
                return self._fail(
                    Unavailable(
                        f"the server {said} {self._in_a_row - 1} times in a row ({reason})",
                        self._why,
                    )
                )
            self._on_restart(
                f"the server was lost ({reason}); connecting again"
                if self._remote
                else f"the server ended ({reason}); starting it again"
            )
            await anyio.sleep(PAUSE_S * 2 ** (self._in_a_row - 1))

    async def _live_once(self) -> str:
        """Run one client until it breaks; return why it ended."""
        try:
            async with self._open_client() as client:
                self._generation = generation = _Generation(client)
                self._was_there = True
                self._announce()
                await generation.broken.wait()
                return "the connection closed"
        except (
            MCPError,
            OSError,
            anyio.ClosedResourceError,
            anyio.BrokenResourceError,
            builtins.BaseExceptionGroup,
        ) as error:
            if not _is_connection_error(error):
                raise
            return _words(error)

    async def _current(self) -> _Generation:
        while self._generation is None or self._generation.broken.is_set():
            if self._failure is not None:
                raise self._failure
            await self._changed.wait()
        return self._generation

    def _fail(self, error: Exception) -> None:
        """Let every call from now on raise this."""
        self._generation = None
        self._failure = _told(error) or error
        self._announce()

    def _announce(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()


@asynccontextmanager
async def connect(
    open_client: OpenClient,
    on_restart: Callable[[str], None] | None = None,
    why: str = "",
    *,
    remote: bool = False,
) -> AsyncIterator[Connection]:
    """Provide a connection for the length of the block.

    Args:
        open_client: Makes a new client and, over stdio, a new server.
        on_restart: Called with a message when that is necessary again.
        why: The hint of the error when no server can be reached, e.g. the path of its log.
        remote: Whether the server runs by itself. If it cannot be reached at first, that is an
            error at once; if it is lost later, the wait is longer.
    """
    connection = Connection(open_client, on_restart, why, remote=remote)
    failure: Exception | None = None
    async with anyio.create_task_group() as group:
        await group.start(connection.keep)
        try:
            yield connection
        except Exception as error:  # raised outside the task group, which would wrap it
            failure = error
        finally:
            connection.close()
    if failure is not None:
        raise failure


def read_result(result: CallToolResult) -> Answer:
    """Return the answer in a result. Raises the KEvolveError of an error result."""
    texts = [block.text for block in result.content if block.type == "text"]
    data = result.structured_content if isinstance(result.structured_content, dict) else {}
    if result.is_error:
        if "message" in data:
            raise read_error(data)
        said = "\n".join(texts).strip()
        raise KEvolveError(said or "the server reported an error without a message")
    # the first block is the verdict, the last what to do next: both are in the data as well
    return Answer(data, "\n".join(texts[1:-1]))


async def _call(
    client: Client, tool: str, arguments: dict[str, Any], listen: ProgressListener | None
) -> CallToolResult:
    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        if listen is not None:
            listen(message or "", min(1.0, progress / total if total else progress))

    try:
        return await client.call_tool(
            tool, arguments, ANSWER_S, progress_callback=on_progress if listen else None
        )
    except (MCPError, anyio.ClosedResourceError, anyio.BrokenResourceError) as error:
        if _is_connection_error(error):
            raise _Broken from error
        if isinstance(error, MCPError) and error.code == REQUEST_TIMEOUT:
            raise Unavailable(
                f"the server did not answer {tool} within {ANSWER_S:.0f} s", "Stop it, then resume."
            ) from error
        if (reported := _told(error)) is not None:
            raise reported from error
        raise KEvolveError(
            f"the server refused the call of {tool}: {error}",
            "",
            Action("describe_targets", "shows what runs here"),
        ) from error


def _is_connection_error(error: BaseException) -> bool:
    if isinstance(error, builtins.BaseExceptionGroup):
        return all(_is_connection_error(e) for e in error.exceptions)
    if isinstance(error, MCPError):
        data = error.error.data if isinstance(error.error.data, dict) else {}
        stopping = data.get("code") == Unavailable.code and data.get("retryable") is True
        forgotten = error.code == INVALID_REQUEST and error.error.message in FORGOTTEN
        return error.code == CONNECTION_CLOSED or stopping or forgotten
    return isinstance(
        error, (OSError, anyio.ClosedResourceError, anyio.BrokenResourceError, _Broken)
    )


def _told(error: BaseException) -> KEvolveError | None:
    """The KEvolveError in a protocol error, e.g. of an HTTP server that refuses the token."""
    error = innermost(error)
    data = error.error.data if isinstance(error, MCPError) else None
    return read_error(data) if isinstance(data, dict) and "message" in data else None


def _words(error: BaseException) -> str:
    error = innermost(error)
    return str(error) or type(error).__name__
