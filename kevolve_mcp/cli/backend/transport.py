"""Clients of a server over HTTP."""

from __future__ import annotations

import builtins
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from .base import identity

CONNECT_S = 10.0
READ_S = 300.0  # a call waits for at most 45 s, with a message from the server every few seconds
MAX_ANSWER = 64 << 20  # bytes: a package's files come in one answer


def http(
    url: str, token: str, *, local: bool, name: str
) -> Callable[[], AbstractAsyncContextManager[Client]]:
    """Return a factory of clients, each with a new connection. An unreachable server raises
    ConnectionError.

    Args:
        url: The MCP endpoint.
        token: The bearer token.
        local: Whether it is on this machine: then proxies of the environment are bypassed.
        name: The command that calls.
    """

    @asynccontextmanager
    async def connected() -> AsyncIterator[Client]:
        try:
            async with (
                httpx2.AsyncClient(
                    headers={"authorization": f"Bearer {token}"},
                    timeout=httpx2.Timeout(CONNECT_S, read=READ_S),
                    trust_env=not local,
                ) as transport,
                Client(
                    streamable_http_client(
                        url, http_client=transport, max_sse_event_size=MAX_ANSWER
                    ),
                    client_info=identity(name),
                ) as client,
            ):
                yield client
        except (httpx2.TransportError, builtins.BaseExceptionGroup) as error:
            reason = _lost(error)
            if reason is None:
                raise
            raise ConnectionError(f"{url}: {str(reason) or type(reason).__name__}") from error

    return connected


def _lost(error: BaseException) -> httpx2.TransportError | None:
    """The first transport failure, where there was no other kind of failure."""
    if isinstance(error, builtins.BaseExceptionGroup):
        lost = [_lost(inner) for inner in error.exceptions]
        return lost[0] if all(lost) else None
    return error if isinstance(error, httpx2.TransportError) else None
