"""The server on a socket: uvicorn, the gate inside it, the SDK's application inside that. Two
limits that uvicorn's HTTP/1.1 protocol lacks are added: on the time for headers, and on the number
of connections."""

from __future__ import annotations

import asyncio
import signal
import socket
import sys
import threading
from types import FrameType

import uvicorn
from mcp.server.transport_security import TransportSecuritySettings
from starlette.routing import Route
from uvicorn.protocols.http.h11_impl import H11Protocol

from kevolve_mcp.errors import UsageError
from kevolve_mcp.executors.remote import JUDGE_PATH
from kevolve_mcp.settings import Settings

from ..build import ServiceFactory, build_server, usual_service
from ..file_access import FilesBelow, default_root
from .gate import AccessGate, refusal
from .judge_endpoint import JudgeEndpoint
from .options import PATH, HttpOptions, Limits, host_names, listen
from .token import Token, find_token, token_file


def limited(limits: Limits) -> type[H11Protocol]:
    """Return a protocol class with these limits.

    A connection that sends no complete headers within `header_s` is closed. The time of a new
    connection runs from its start, that of a kept one from the first byte after its last answer
    (uvicorn itself closes one that stays silent).
    """

    answer = refusal(
        503,
        f"the server has {limits.connections} connections already",
        "Try again later.",
        code="unavailable",
    )
    head = [b"HTTP/1.1 503 Service Unavailable", b"retry-after: 5", b"connection: close"]
    head += [name + b": " + value for name, value in answer.raw_headers]
    busy = b"\r\n".join([*head, b"", bytes(answer.body)])

    class Limited(H11Protocol):
        _deadline: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            if len(self.connections) > limits.connections:
                transport.write(busy)
                transport.close()
                return
            self._start()

        def data_received(self, data: bytes) -> None:
            if self.transport.is_closing():
                return
            if self._deadline is None and not self._busy():
                self._start()
            super().data_received(data)
            if self._busy():
                self._stop()

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop()
            super().connection_lost(exc)

        def _busy(self) -> bool:
            """Whether a request with complete headers is in progress."""
            return self.cycle is not None and not self.cycle.response_complete

        def _start(self) -> None:
            self._deadline = self.loop.call_later(limits.header_s, self._late)

        def _stop(self) -> None:
            if self._deadline is not None:
                self._deadline.cancel()
                self._deadline = None

        def _late(self) -> None:
            self._deadline = None
            if not self._busy():
                self.transport.abort()

    return Limited


LAST_RESORT_S = 5  # uvicorn then cancels what still runs


def serve_http(
    options: HttpOptions, settings: Settings, service: ServiceFactory = usual_service
) -> None:
    """Serve until SIGTERM or SIGINT, then end cleanly: running jobs stay in the home, where the
    next server resumes them.

    Raises UsageError, Unavailable or StoreError when it cannot start."""
    roots = options.roots or (default_root(),)
    for root in roots:
        if not root.is_dir():
            raise UsageError(
                f"the root {root} is not a folder",
                "--root names a folder with tasks and kernels; repeatable.",
            )
    with listen(options) as bound:
        token = find_token(options.token, settings.home)
        file_access = FilesBelow(
            [root.absolute() for root in roots],
            closed=[settings.home],
            any_python=options.allow_python,
            task_texts=not options.tasks_from_root,
        )
        limits = options.limits
        security = TransportSecuritySettings(
            enable_dns_rebinding_protection=True,
            allowed_hosts=host_names(options, bound),
            allowed_origins=[],
        )
        judging = JudgeEndpoint(limits)
        app = build_server(settings, service, file_access, judging.attach).streamable_http_app(
            streamable_http_path=PATH,
            max_request_body_size=limits.body_bytes,
            session_idle_timeout=limits.idle_s,
            max_sessions=limits.sessions,
            transport_security=security,
        )
        app.router.routes.append(Route(JUDGE_PATH, judging, methods=["POST"]))
        gate = AccessGate(app, token.value, security, limits.body_s)
        config = uvicorn.Config(
            gate,
            http=limited(limits),
            ws="none",
            loop="asyncio",
            lifespan="on",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            workers=1,
            backlog=limits.connections,
            h11_max_incomplete_event_size=limits.header_bytes,
            timeout_graceful_shutdown=limits.grace_s + LAST_RESORT_S,
        )
        if threading.current_thread() is threading.main_thread():
            # uvicorn raises the signal again once it has closed everything
            signal.signal(signal.SIGTERM, _stop)
        words = _words(bound, token, settings, file_access)
        Server(config, gate, limits.grace_s, words).run(sockets=[bound])


class Server(uvicorn.Server):
    """A server whose calls in progress end with an answer, not a traceback, when it is stopped.
    words: printed once it serves."""

    def __init__(
        self, config: uvicorn.Config, gate: AccessGate, grace_s: float, words: str
    ) -> None:
        super().__init__(config)
        self._gate = gate
        self._grace_s = grace_s
        self._words = words

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        print(self._words, file=sys.stderr, flush=True)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        asyncio.get_running_loop().call_later(self._grace_s, self._gate.stop)
        await super().shutdown(sockets)


def _stop(number: int, frame: FrameType | None) -> None:
    sys.exit(0)


def _words(bound: socket.socket, token: Token, settings: Settings, file_access: FilesBelow) -> str:
    """Where the server listens; the token only when it was just made."""
    host, port = bound.getsockname()[:2]
    where = f"[{host}]" if ":" in host else host
    lines = [
        f"KEvolve serves MCP at http://{where}:{port}{PATH}",
        f"Paths: .py files below {', '.join(map(str, file_access.roots))}",
    ]
    if token.origin == "made":
        lines.append(f"Token, shown this once: {token.value}")
    if token.origin != "given":
        lines.append(
            f"The token is stored in {token_file(settings.home)} (remove the file for a new one)"
        )
    return "\n".join(lines)
