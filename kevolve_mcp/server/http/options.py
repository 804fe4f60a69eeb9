"""How the server listens, and where it refuses to."""

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
    """Limits of the server. header_s: from the start of a connection, or of a further request on
    it, to the last header. header_bytes: all headers together. body_s: from the headers to the last
    byte of the body. body_bytes: one request; two escaped sources of 2 MB fit. connections: at
    once. sessions: of clients whose protocol has sessions; idle_s: until an unused one is dropped.
    grace_s: how long calls in progress may take when the server is stopped."""

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
    """Options of the server. token: what the user set, None where nothing was set. roots: folders
    whose Python files callers may name (default: the current folder). allow_remote: listen on an
    address that other machines can reach. allow_hosts: further names by which clients reach the
    server. allow_python: callers may name an interpreter. tasks_from_root: callers may not send
    tasks as text."""

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
    """Return a listening socket: clients may connect from now on, and wait for the server.

    Raises:
        UsageError: Other machines can reach the address, and that was not allowed or the user set
            no token; or the port or host does not exist.
        Unavailable: The address cannot be bound.
    """
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
    # the protocol is named because asyncio sets TCP_NODELAY only then
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
            "A server may be running there already. Choose another port: --port N; 0 takes a free "
            "one.",
        ) from None
    return bound


def _check_remote(options: HttpOptions, address: str) -> None:
    if not options.allow_remote:
        raise UsageError(
            f"{options.host} ({address}) can be reached from other machines, and whoever holds the "
            "token can run code here",
            "Keep 127.0.0.1 and use an SSH tunnel (docs/http.md), or add --allow-remote and set a "
            "token in KEVOLVE_TOKEN.",
        )
    if options.token is None:
        raise UsageError(
            f"to listen on {options.host} ({address}) you must set the token yourself",
            "Set KEVOLVE_TOKEN (or --token) for the server, and use the same for its clients.",
        )


def host_names(options: HttpOptions, bound: socket.socket) -> list[str]:
    """Return the accepted values of the Host header, as TransportSecuritySettings takes them.

    Any port is accepted: behind a tunnel the client's port differs, and a web page that rebinds
    its own name (DNS rebinding) sends that name."""
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
