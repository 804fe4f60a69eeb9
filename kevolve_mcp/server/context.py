"""What a tool call can reach: the service of this process, the settings, and the files that the
caller may name. The service is made when a call first needs it, since importing its parts takes
about as long as listing the tools."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import anyio
from mcp.server.mcpserver import Context

from kevolve_mcp.lazy import nothing_is_garbage
from kevolve_mcp.settings import Settings

from .file_access import FileAccess

if TYPE_CHECKING:
    from kevolve_mcp.sessions import Service


class Deferred:
    """A service that is made when first needed; `deferred` creates one.

    Concurrency: `get` may be awaited by many tasks. One task owns the service, as its cancel
    scopes require.
    """

    def __init__(self, make: Callable[[], Service]) -> None:
        self._make = make
        self._service: Service | None = None
        self._failure: Exception | None = None
        self._wanted, self._known, self._over = anyio.Event(), anyio.Event(), anyio.Event()

    async def get(self) -> Service:
        """Return the service. Raises what making it raised."""
        self._wanted.set()
        await self._known.wait()
        if self._service is None:
            raise self._failure or RuntimeError("the service is closed")
        return self._service

    async def keep(self) -> None:
        """Own the service from the first call that needs it until `close`."""
        await self._wanted.wait()
        if self._over.is_set():
            return
        try:
            with nothing_is_garbage():
                made = self._make()
        except Exception as error:  # passed on to the callers that wait in `get`
            self._failure = error
            self._known.set()
            return
        async with made as self._service:
            self._known.set()
            await self._over.wait()

    def close(self) -> None:
        """Let `keep` end."""
        self._over.set()
        self._wanted.set()


@asynccontextmanager
async def deferred(make: Callable[[], Service]) -> AsyncIterator[Deferred]:
    """Provide a service for the length of the block, made by the first call that needs it."""
    later = Deferred(make)
    failure: Exception | None = None
    async with anyio.create_task_group() as group:
        group.start_soon(later.keep)
        try:
            yield later
        except Exception as error:  # raised outside the task group, which would wrap it
            failure = error
        finally:
            later.close()
    if failure is not None:
        raise failure


@dataclass(frozen=True)
class App:
    """What tool calls share for the life of a connection (stdio) or of the process (HTTP)."""

    service: Deferred
    settings: Settings
    file_access: FileAccess


def app(ctx: Context[Any]) -> App:
    """Return the App of this call."""
    application = ctx.request_context.lifespan_context
    assert isinstance(application, App)
    return application


async def service(ctx: Context[Any]) -> Service:
    """Return the service, made now if this call is the first that needs it."""
    return await app(ctx).service.get()


def file_access(ctx: Context[Any]) -> FileAccess:
    return app(ctx).file_access


def author(ctx: Context[Any]) -> str:
    """Return the client's name and version, "" where the client does not give them."""
    params = ctx.session.client_params
    return f"{params.client_info.name} {params.client_info.version}".strip() if params else ""


def caller(ctx: Context[Any]) -> str:
    """Return who takes asks and submits kernels: the author; over HTTP with a mark of its
    connection, since clients of the same name share the server."""
    connection = _connection(ctx)
    mark = f" #{hashlib.sha256(connection.encode()).hexdigest()[:8]}" if connection else ""
    return f"{author(ctx)}{mark}"


def told_apart(ctx: Context[Any]) -> bool:
    """Return whether two clients can be told apart. Over HTTP without connections they may look
    the same."""
    return ctx.headers is None or bool(_connection(ctx))


def _connection(ctx: Context[Any]) -> str:
    return (ctx.headers or {}).get("mcp-session-id", "")
