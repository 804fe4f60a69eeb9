"""The service of a connection, made when a call first needs it: importing what it is made of takes
about as long as listing the tools."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import anyio

from kevolve_mcp.lazy import nothing_is_garbage

if TYPE_CHECKING:
    from kevolve_mcp.sessions import Service


class Deferred:
    """Use `deferred` to get one.

    Concurrency: `get` may be awaited by many tasks. One task owns the service (its cancel scopes
    demand that).
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
        except Exception as error:  # for those who wait: nobody else hears of it
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
    """Keep a service for the length of the block, from the first call on that needs it."""
    later = Deferred(make)
    failure: Exception | None = None
    async with anyio.create_task_group() as group:
        group.start_soon(later.keep)
        try:
            yield later
        except Exception as error:  # carried out of the group, which would wrap it
            failure = error
        finally:
            later.close()
    if failure is not None:
        raise failure
