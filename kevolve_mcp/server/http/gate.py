"""The checks that every request passes before MCP sees it: Host and Origin, the token, the time
allowed for its body."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence

import anyio
from mcp.server.transport_security import TransportSecurityMiddleware, TransportSecuritySettings
from mcp.types import INVALID_REQUEST
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from . import token as tokens

log = logging.getLogger(__name__)


class Slow(Exception):
    """The body did not arrive in time."""


class AccessGate:
    """An ASGI application around the SDK's. Refusals are JSON-RPC errors whose `data` is a KEvolve
    error, so that a client shows the reason."""

    def __init__(
        self, app: ASGIApp, token: str, security: TransportSecuritySettings, body_s: float
    ) -> None:
        self._app = app
        self._token = token
        self._security = TransportSecurityMiddleware(security)
        self._hosts: Sequence[str] = [
            name for name in security.allowed_hosts if not name.endswith(":*")
        ]
        self._body_s = body_s
        self._under_way: set[anyio.CancelScope] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            return await self._app(scope, receive, send)
        if scope["type"] != "http":  # no WebSocket is served
            return None
        refused = await self._refusal(Request(scope))
        if refused is not None:
            log.warning(
                "refused a request of %s: %d",
                (scope.get("client") or ["?"])[0],
                refused.status_code,
            )
            return await refused(scope, receive, send)
        return await self._bounded(scope, receive, send)

    async def _refusal(self, request: Request) -> Response | None:
        wrong = await self._security.validate_request(request)
        if wrong is not None and wrong.status_code == 421:
            return refusal(
                421,
                "the Host header names another server",
                f"Accepted: {', '.join(self._hosts)}; --allow-host NAME adds one.",
            )
        if wrong is not None:
            return refusal(
                wrong.status_code,
                "requests from web pages are refused",
                "Connect with an MCP client, not from a web page.",
            )
        headers = request.headers.getlist("authorization")
        scheme, _, value = headers[0].partition(" ") if len(headers) == 1 else ("", "", "")
        if scheme.lower() != "bearer" or not value:
            return refusal(
                401,
                "this server requires a bearer token",
                'Send one header "Authorization: Bearer TOKEN"; for kevolve set KEVOLVE_TOKEN. '
                "At its start the server prints where its token is stored.",
            )
        if not tokens.same(value.encode("latin-1"), self._token):
            return refusal(
                401,
                "the bearer token is wrong",
                "Use the server's token: its KEVOLVE_TOKEN, or the file http-token in its home.",
            )
        return None

    def stop(self) -> None:
        """End all requests in progress: they only wait for jobs, and jobs are kept."""
        for scope in list(self._under_way):
            scope.cancel()

    async def _bounded(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle the request: its body must arrive in time, and `stop` ends it."""
        deadline = anyio.current_time() + self._body_s
        complete = started = ended = late = False

        async def receive_in_time() -> Message:
            nonlocal complete, late
            if complete:
                return await receive()
            with anyio.CancelScope(deadline=deadline) as waiting:
                message = await receive()
                complete = message["type"] != "http.request" or not message.get("more_body", False)
            if waiting.cancelled_caught:
                late = True
                raise Slow
            return message

        async def send_on(message: Message) -> None:
            nonlocal started, ended
            if late:  # an inner layer's answer to Slow
                return
            started = True
            ended = message["type"] == "http.response.body" and not message.get("more_body", False)
            await send(message)

        with anyio.CancelScope() as stopped:
            self._under_way.add(stopped)
            try:
                await self._app(scope, receive_in_time, send_on)
            except Slow:
                log.warning("a request's body did not arrive within %g s", self._body_s)
            finally:
                self._under_way.discard(stopped)
        if not started and (late or stopped.cancelled_caught):
            what = (
                f"the request's body did not arrive within {self._body_s:g} s"
                if late
                else "the server is stopping"
            )
            answer = refusal(
                408 if late else 503,
                what,
                "Send it again.",
                code="usage" if late else "unavailable",
            )
            answer.headers["connection"] = "close"
            await answer(scope, receive, send)
        elif stopped.cancelled_caught and not ended:
            await send({"type": "http.response.body", "body": b"", "more_body": False})


def refusal(status: int, message: str, hint: str, *, code: str = "usage") -> Response:
    """Return a protocol error whose `data` is a KEvolve error. code "unavailable": the same request
    may succeed later."""
    data = {"code": code, "message": message, "hint": hint, "retryable": code == "unavailable"}
    error = {"code": INVALID_REQUEST, "message": f"{message}. {hint}", "data": data}
    body = json.dumps({"jsonrpc": "2.0", "id": None, "error": error})
    headers = {"www-authenticate": "Bearer"} if status == 401 else {}
    return Response(body, status, headers, "application/json")
