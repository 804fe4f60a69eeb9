"""uvicorn's HTTP/1.1 protocol with two limits that it lacks: a time for the headers, and a number
of connections."""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.h11_impl import H11Protocol

from .gate import refusal
from .options import Limits


def limited(limits: Limits) -> type[H11Protocol]:
    """A protocol class under these limits.

    A connection that sends no complete headers within `header_s` is closed: a new one counted from
    its first moment, a kept one from the first byte after its last answer (uvicorn itself closes it
    when it stays silent).
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
            """Whether a request is under way, its headers complete."""
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
