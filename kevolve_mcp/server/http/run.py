"""The server on a socket: uvicorn around the gate around the SDK's application."""

from __future__ import annotations

import signal
import socket
import sys
import threading
from types import FrameType

import uvicorn
from mcp.server.transport_security import TransportSecuritySettings

from kevolve_mcp.errors import UsageError
from kevolve_mcp.sessions import Service
from kevolve_mcp.settings import Settings

from ..build import ServiceFactory, build_server
from ..reach import Below, default_root
from . import protocol
from .gate import Gate
from .options import PATH, HttpOptions, host_names, listen
from .token import Token, find_token, token_file


def serve_http(options: HttpOptions, settings: Settings, service: ServiceFactory = Service) -> None:
    """Serve until SIGTERM or SIGINT, then end cleanly: jobs under way stay in the home, where the next server takes them up.

    Raises UsageError, Unavailable or StoreError when it cannot start."""
    roots = options.roots or (default_root(),)
    for root in roots:
        if not root.is_dir():
            raise UsageError(f"the root {root} is not a folder", "--root names a folder with tasks and kernels; repeatable.")
    with listen(options) as bound:
        token = find_token(options.token, settings.home)
        reach = Below(
            [root.absolute() for root in roots],
            closed=[settings.home],
            any_python=options.allow_python,
            task_texts=not options.tasks_from_root,
        )
        limits = options.limits
        security = TransportSecuritySettings(
            enable_dns_rebinding_protection=True, allowed_hosts=host_names(options, bound), allowed_origins=[]
        )
        app = build_server(settings, service, reach).streamable_http_app(
            streamable_http_path=PATH,
            max_request_body_size=limits.body_bytes,
            session_idle_timeout=limits.idle_s,
            max_sessions=limits.sessions,
            transport_security=security,
        )
        config = uvicorn.Config(
            Gate(app, token.value, security, limits.body_s),
            http=protocol.limited(limits),
            ws="none",
            loop="asyncio",
            lifespan="on",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            workers=1,
            backlog=limits.connections,
            timeout_graceful_shutdown=limits.grace_s,
        )
        _announce(bound, token, settings, reach)
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, _stop)  # what uvicorn raises again once it has closed everything
        uvicorn.Server(config).run(sockets=[bound])


def _stop(number: int, frame: FrameType | None) -> None:
    sys.exit(0)


def _announce(bound: socket.socket, token: Token, settings: Settings, reach: Below) -> None:
    """Where the server listens; the token only when it was just made."""
    host, port = bound.getsockname()[:2]
    where = f"[{host}]" if ":" in host else host
    lines = [f"KEvolve serves MCP at http://{where}:{port}{PATH}", f"Paths: .py files below {', '.join(map(str, reach.roots))}"]
    if token.origin == "made":
        lines.append(f"Token, shown this once: {token.value}")
    if token.origin != "given":
        lines.append(f"The token lies in {token_file(settings.home)} (remove it for another one)")
    print("\n".join(lines), file=sys.stderr, flush=True)
