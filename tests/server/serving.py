"""The server over HTTP as a process of its own on a free loopback port, and what is needed to talk
to it, well or badly."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

ROOT = Path(__file__).parents[2]
TOKEN = "a-token-of-the-tests-0123"
PATIENCE_S = 15.0  # after which a test gives up; nothing takes that long
ACCEPT = "application/json, text/event-stream"


@dataclass
class Answer:
    status: int
    headers: str
    body: str


class Serving:
    """A running server. Killed at the end of the `with`, if it still runs."""

    def __init__(self, home: Path, root: Path, token: str = TOKEN, **options: Any) -> None:
        self.home, self.root, self.token, self.options = home, root, token, options
        self.said: list[str] = []

    def __enter__(self) -> Serving:
        self.start()
        return self

    def __exit__(self, *exception: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        assert self.process.stderr is not None
        self.process.stderr.close()

    def start(self) -> None:
        """The first time on a free port, then on the same one."""
        command = [
            sys.executable,
            "-m",
            "tests.server.fake_http_server",
            str(self.home),
            str(self.root),
            json.dumps(self.options),
        ]
        environment = {**os.environ, "KEVOLVE_TOKEN": self.token}
        self.process = subprocess.Popen(
            command, stderr=subprocess.PIPE, text=True, cwd=ROOT, env=environment
        )
        assert self.process.stderr is not None
        first = self.process.stderr.readline()
        found = re.search(r":(\d+)/mcp$", first.strip())
        assert found, first + self.process.stderr.read()
        self.port = int(found[1])
        self.options["port"] = self.port
        self.said = [first, self.process.stderr.readline()]

    def stop(self, how: signal.Signals = signal.SIGTERM) -> tuple[int, str]:
        """Exit code, and what it said."""
        self.process.send_signal(how)
        self.process.wait(PATIENCE_S)
        assert self.process.stderr is not None
        text = self.process.stderr.read()
        self.process.stderr.close()
        return self.process.returncode, text

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp"

    @asynccontextmanager
    async def client(self, mode: str = "auto", token: str | None = None) -> AsyncIterator[Client]:
        """A client of the SDK, with the token in its header."""
        headers = {"authorization": f"Bearer {self.token if token is None else token}"}
        async with (
            httpx2.AsyncClient(
                headers=headers, timeout=httpx2.Timeout(10, read=60), trust_env=False
            ) as transport,
            Client(streamable_http_client(self.url, http_client=transport), mode=mode) as client,  # type: ignore[arg-type]
        ):
            yield client

    def socket(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE_S)

    def send(self, raw: bytes) -> Answer | None:
        """Bytes as they are, and the answer; None where the server hung up without one."""
        with self.socket() as connection:
            connection.sendall(raw)
            return receive(connection)

    def request(
        self,
        headers: dict[str, str] | None = None,
        body: bytes = b"{}",
        *,
        method: str = "POST",
        target: str = "/mcp",
        host: str | None = None,
        token: str | None = "",
    ) -> Answer | None:
        """One request, well-formed unless asked otherwise. token: "" the right one, None none."""
        lines = [f"{method} {target} HTTP/1.1", f"Host: {host or f'127.0.0.1:{self.port}'}"]
        lines += [
            f"Accept: {ACCEPT}",
            "Content-Type: application/json",
            f"Content-Length: {len(body)}",
        ]
        if token is not None:
            lines.append(f"Authorization: Bearer {token or self.token}")
        lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
        return self.send("\r\n".join([*lines, "", ""]).encode("latin-1") + body)


def receive(connection: socket.socket) -> Answer | None:
    """One answer with a length, or up to the end of the connection."""
    data = b""
    try:
        while b"\r\n\r\n" not in data:
            if not (more := connection.recv(65536)):
                return None
            data += more
        head, _, body = data.partition(b"\r\n\r\n")
        length = re.search(rb"content-length: (\d+)", head, re.IGNORECASE)
        while length and len(body) < int(length[1]):
            if not (more := connection.recv(65536)):
                break
            body += more
    except ConnectionResetError:
        if not data:
            return None
        head, _, body = data.partition(b"\r\n\r\n")
    return Answer(int(head.split()[1]), head.decode("latin-1"), body.decode("latin-1"))


@contextmanager
def hung_up(connection: socket.socket) -> Iterator[None]:
    """After the block the server ends the connection by itself; a server that does not makes the
    socket time out."""
    yield
    try:
        while connection.recv(65536):
            pass
    except ConnectionError:
        pass
