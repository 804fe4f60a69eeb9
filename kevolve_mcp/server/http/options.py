"""How the server is to listen, and where it must not."""

from __future__ import annotations

import ipaddress
import socket
from dataclasses import dataclass, field
from pathlib import Path

from kevolve_mcp.errors import Unavailable, UsageError

PATH = "/mcp"
PORT = 8765
MEGABYTE = 1 << 20


@dataclass(frozen=True)
class Limits:
    """header_s: from the first moment of a connection, or of a further request on it, to the last
    header. header_bytes: of all together. body_s: from the headers to the last byte of the body.
    body_bytes: of one request; two sources of 2 MB, escaped, fit. connections: at once. sessions:
    of clients that speak a protocol with sessions; idle_s: until an unused one is forgotten.
    grace_s: how long calls under way may take when the server is stopped."""

    header_s: float = 10.0
    header_bytes: int = 64 << 10
    body_s: float = 30.0
    body_bytes: int = 8 * MEGABYTE
    connections: int = 128
    sessions: int = 256
    idle_s: float = 4 * 3600.0
    grace_s: int = 3


@dataclass(frozen=True)
class HttpOptions:
    """token: what the user set, None where nothing was set. roots: folders whose Python files
    callers may name (default: the current folder). allow_remote: listen on an address that is not
    this machine's own. allow_hosts: further names by which clients reach the server. allow_python:
    callers may name an interpreter. tasks_from_root: callers may not send tasks."""

    host: str = "127.0.0.1"
    port: int = PORT
    token: str | None = None
    roots: tuple[Path, ...] = ()
    allow_remote: bool = False
    allow_hosts: tuple[str, ...] = ()
    allow_python: bool = False
    tasks_from_root: bool = False
    limits: Limits = field(default_factory=Limits)


def listen(options: HttpOptions) -> socket.socket:
    """A socket that listens: whoever connects from now on waits for the server. Raises UsageError
    for one that others reach unless that was allowed and has a token of the user's, and Unavailable
    where the address cannot be had."""
    if not 0 <= options.port <= 65535:
        raise UsageError(
            f"there is no port {options.port}",
            f"Ports are 1 to 65535; 0 takes a free one; default: {PORT}.",
        )
    try:
        kind, _, _, _, address = socket.getaddrinfo(
            options.host or "127.0.0.1",
            options.port,
            type=socket.SOCK_STREAM,
            flags=socket.AI_PASSIVE,
        )[0]
    except (OSError, UnicodeError) as error:
        raise UsageError(
            f"the host {options.host!r} has no address: {error}", "Default: 127.0.0.1."
        ) from None
    if not ipaddress.ip_address(str(address[0]).partition("%")[0]).is_loopback:
        _check_remote(options, str(address[0]))
    # named: asyncio sets TCP_NODELAY only then
    bound = socket.socket(kind, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if kind == socket.AF_INET6:
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        bound.bind(address)
        bound.listen(options.limits.connections)
    except OSError as error:
        bound.close()
        raise Unavailable(
            f"cannot listen on {options.host}:{options.port}: {error.strerror}",
            "Is a server running there already? Another port: --port N; 0 takes a free one.",
        ) from None
    return bound


def _check_remote(options: HttpOptions, address: str) -> None:
    if not options.allow_remote:
        raise UsageError(
            f"{options.host} ({address}) is reached from other machines, and whoever holds the "
            "token runs code here",
            "Keep 127.0.0.1 and use an SSH tunnel (docs/http.md), or add --allow-remote with a "
            "token of yours in KEVOLVE_TOKEN.",
        )
    if options.token is None:
        raise UsageError(
            f"to listen on {options.host} ({address}) the token must be one that you set",
            "Set KEVOLVE_TOKEN (or --token) for the server, and give the same to its clients.",
        )


def host_names(options: HttpOptions, bound: socket.socket) -> list[str]:
    """The values of the Host header that are accepted, as TransportSecuritySettings takes them.

    Any port: behind a tunnel the client's is another one, and a page that rebinds a name of its own
    comes with that name."""
    address = str(bound.getsockname()[0])
    listening = ipaddress.ip_address(address.partition("%")[0])
    names = [
        "127.0.0.1",
        "localhost",
        "::1",
        *([] if listening.is_unspecified else [options.host]),
        *options.allow_hosts,
    ]
    if not listening.is_loopback:
        names.append(socket.gethostname())
    written = [
        f"[{name}]" if ":" in name and not name.startswith("[") else name
        for name in dict.fromkeys(names)
        if name
    ]
    return [spelling for name in written for spelling in (name, f"{name}:*")]
