"""A running server that is reached by its URL, instead of one that the command line starts."""

from __future__ import annotations

import builtins
import ipaddress
import os
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass
from urllib.parse import urlsplit, urlunsplit

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import Implementation

from kevolve_mcp.errors import UsageError
from kevolve_mcp.server.http import PATH, read_token
from kevolve_mcp.settings import Settings, variable

CONNECT_S = 10.0
READ_S = 300.0  # a call waits for at most 45 s, and the server says something every few seconds
MAX_ANSWER = 64 << 20  # bytes: a package's files come in one answer


@dataclass(frozen=True)
class Remote:
    """url: of the MCP endpoint. local: it is this machine's (or the near end of a tunnel)."""

    url: str
    token: str
    local: bool

    @property
    def warning(self) -> str:
        """What the user should know before the token is sent, "" for nothing."""
        if self.local or self.url.startswith("https:"):
            return ""
        return (
            f"the token and everything else crosses the network in clear on its way to {self.url}; "
            "prefer an SSH tunnel or https"
        )

    def __repr__(self) -> str:
        return f"Remote({self.url!r})"

    @contextmanager
    def inherited(self) -> Iterator[None]:
        """Inside, the environment names this server: an author that is a command finds the session
        with `kevolve`, too."""
        before = dict(os.environ)
        own = {variable("server"): self.url, variable("token"): self.token}
        os.environ.update(own)
        try:
            yield
        finally:
            for name in own:
                os.environ.pop(name, None)
                if name in before:
                    os.environ[name] = before[name]


def find_remote(server: str, token: str) -> Remote | None:
    """The server that the options or KEVOLVE_SERVER name, None where none is named. token: else
    KEVOLVE_TOKEN, else, for a server on this machine, the one stored in the home. Raises
    UsageError, StoreError."""
    settings = Settings()
    if not server and not settings.server:
        if token:
            raise UsageError("--token is for a server", "Name it, too: --server URL.")
        return None
    url, local = _endpoint(server or settings.server)
    known = (
        token or settings.token.get_secret_value() or (read_token(settings.home) if local else "")
    )
    if not known:
        where = (
            "none lies in this home either"
            if local
            else "the one in this home is not sent elsewhere"
        )
        raise UsageError(
            f"no token for {url} ({where})",
            "Set KEVOLVE_TOKEN (or --token) to the token of that server.",
        )
    if not known.isascii() or not known.isprintable() or " " in known:
        raise UsageError(
            "the token has characters that no bearer token has",
            "Copy it again, without quotes, spaces or line ends.",
        )
    return Remote(url, known, local)


def http(
    remote: Remote, identity: Implementation
) -> Callable[[], AbstractAsyncContextManager[Client]]:
    """Each client that this makes connects anew. A server that is not there, or no longer, is a
    ConnectionError."""

    @asynccontextmanager
    async def connected() -> AsyncIterator[Client]:
        try:
            async with (
                httpx2.AsyncClient(
                    headers={"authorization": f"Bearer {remote.token}"},
                    timeout=httpx2.Timeout(CONNECT_S, read=READ_S),
                    # a proxy of the environment must not see what stays on this machine
                    trust_env=not remote.local,
                ) as transport,
                Client(
                    streamable_http_client(
                        remote.url, http_client=transport, max_sse_event_size=MAX_ANSWER
                    ),
                    client_info=identity,
                ) as client,
            ):
                yield client
        except (httpx2.TransportError, builtins.BaseExceptionGroup) as error:
            reason = _lost(error)
            if reason is None:
                raise
            raise ConnectionError(
                f"{remote.url}: {str(reason) or type(reason).__name__}"
            ) from error

    return connected


def _endpoint(text: str) -> tuple[str, bool]:
    """The URL completed, and whether it is this machine's. Raises UsageError."""
    example = f"Example: --server http://127.0.0.1:8765{PATH}."
    try:
        parts = urlsplit(text)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise UsageError(f"{text!r} is not a URL: {error}", example) from None
    if parts.scheme not in ("http", "https") or not host:
        raise UsageError(f"{text!r} is not the URL of a server over HTTP", example)
    if parts.username or parts.password or parts.query or parts.fragment:
        raise UsageError(
            "the server's URL carries more than host, port and path",
            f"The token goes into KEVOLVE_TOKEN. {example}",
        )
    path = parts.path if parts.path.strip("/") else PATH
    return urlunsplit((parts.scheme, parts.netloc, path, "", "")), _is_local(host)


def _is_local(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _lost(error: BaseException) -> httpx2.TransportError | None:
    """The first failure of the transport, where there was no other failure."""
    if isinstance(error, builtins.BaseExceptionGroup):
        found = [_lost(inner) for inner in error.exceptions]
        return found[0] if all(found) else None
    return error if isinstance(error, httpx2.TransportError) else None
