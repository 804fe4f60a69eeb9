"""A running server, reached by its URL. It may be on another machine, so files are read here and
sent as text, and packages come back as text. The server's executor judges files outside of any
session, where the device is. Decisions that only a person makes are refused."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit, urlunsplit

import typer

from kevolve_mcp.driver import connect
from kevolve_mcp.errors import UsageError
from kevolve_mcp.executors.remote import JUDGE_PATH, JudgeCall, RemoteExecutor
from kevolve_mcp.server.http import PATH, read_token
from kevolve_mcp.sessions.types import Text
from kevolve_mcp.settings import Settings, variable

from ..files import read_text, stays_here

if TYPE_CHECKING:
    from kevolve_mcp.driver import Connection, Tools
    from kevolve_mcp.server.diagnosis import Diagnosis
    from kevolve_mcp.sessions import Service

    from ..judging import FileOrder
    from .base import Announce, FileJudge


@dataclass(frozen=True)
class Remote:
    """A `Backend` that asks a running server."""

    url: str
    """The URL of the MCP endpoint."""
    local: bool
    """Whether the URL is on this machine, perhaps the near end of a tunnel."""
    given: str = field(default="", repr=False)
    """The bearer token from the option, "" where none was given."""

    shares_files = False

    @classmethod
    def at(cls, url: str, token: str = "") -> Remote:
        """Return the backend of a URL, completed. Raises UsageError where it is no URL."""
        return cls(*_endpoint(url), token)

    @property
    def warning(self) -> str:
        """Return what the user should know before the token is sent, "" for nothing."""
        if self.local or self.url.startswith("https:"):
            return ""
        return (
            f"the token and all other data cross the network unencrypted on the way to {self.url}; "
            "prefer an SSH tunnel or https"
        )

    def token(self) -> str:
        """Return the bearer token: given, else KEVOLVE_TOKEN, else, for a server on this machine,
        the one stored in the home. Raises UsageError, StoreError."""
        settings = Settings()
        stored = "" if self.given else settings.token.get_secret_value()
        known = self.given or stored or (read_token(settings.home) if self.local else "")
        if not known:
            where = (
                "this home holds none"
                if self.local
                else "the one in this home is not sent to other machines"
            )
            raise UsageError(
                f"no token for {self.url} ({where})",
                "Set KEVOLVE_TOKEN (or --token) to the token of that server.",
            )
        if not known.isascii() or not known.isprintable() or " " in known:
            raise UsageError(
                "the token has characters that a bearer token cannot have",
                "Copy it again, without quotes, spaces or line breaks.",
            )
        return known

    @contextmanager
    def inherited(self) -> Iterator[None]:
        """Name this server in the environment inside the block, so that an author's command reaches
        the session with `kevolve`."""
        before = dict(os.environ)
        own = {variable("server"): self.url, variable("token"): self.token()}
        os.environ.update(own)
        try:
            yield
        finally:
            for name in own:
                os.environ.pop(name, None)
                if name in before:
                    os.environ[name] = before[name]

    def text(self, path: Path, what: str) -> Text:
        """Return the file's text: the server need not see our files."""
        return Text(source=read_text(path, what))

    @asynccontextmanager
    async def looking(self) -> AsyncIterator[Tools]:
        async with self._connected("kevolve") as connection:
            yield connection

    @asynccontextmanager
    async def tools(self, python: str = "") -> AsyncIterator[Tools]:
        _refuse_python(python)
        async with self._connected("kevolve") as connection:
            yield connection

    @asynccontextmanager
    async def connection(
        self, restarted: Callable[[str], None], *, debug: bool = False
    ) -> AsyncIterator[Connection]:
        with self.inherited():
            async with self._connected("kevolve optimize", restarted) as connection:
                yield connection

    @asynccontextmanager
    async def _connected(
        self, name: str, restarted: Callable[[str], None] | None = None
    ) -> AsyncIterator[Connection]:
        """The server's tools, reconnecting when the connection is lost."""
        from .transport import http

        token = self._warned()
        client = http(self.url, token, local=self.local, name=name)
        async with connect(client, restarted, self._why, remote=True) as connection:
            yield connection

    @asynccontextmanager
    async def judge(
        self, order: FileOrder, announce: Announce, *, python: str = "", fresh: bool = False
    ) -> AsyncIterator[FileJudge]:
        from ..judging import opened

        if remark := stays_here(order.task):
            typer.echo(remark, err=True)
        async with self._executor(python) as executor:
            yield await opened(executor, order, announce, fresh=fresh)

    async def template(self, task: Path, target: str, language: str, python: str = "") -> str:
        from kevolve_mcp.synthesis.templates import template_candidate

        source = read_text(task, "task")
        async with self._executor(python) as executor:
            opened = await executor.open_task(source, "", target, timed=False)
            return template_candidate(opened, language).source

    async def diagnose(self, python: str = "") -> Diagnosis:
        from kevolve_mcp.server.diagnosis import Diagnosis

        async with self._executor(python) as executor:
            diagnosis = await executor.ask(Diagnosis, JudgeCall("diagnose"))
            return replace(diagnosis, machine=f"the machine of {self.url}")

    @asynccontextmanager
    async def _executor(self, python: str) -> AsyncIterator[RemoteExecutor]:
        """The server's judge. Raises UsageError where an interpreter is named."""
        _refuse_python(python)
        url = f"{self.url.rpartition('/')[0]}{JUDGE_PATH}"
        async with RemoteExecutor(url, self._warned(), local=self.local) as executor:
            yield executor

    def _warned(self) -> str:
        """The token, after a warning where it crosses the network unencrypted."""
        token = self.token()
        if self.warning:
            typer.echo(f"warning: {self.warning}", err=True)
        return token

    @property
    def _why(self) -> str:
        return (
            f"The server may not be running; start it on its machine: kevolve serve --http. Its "
            f"URL here is {self.url}."
        )

    def home(self, what: str) -> Path:
        raise _only_at_home(what)

    def service(self, what: str) -> AbstractAsyncContextManager[Service]:
        raise _only_at_home(what)


def _refuse_python(python: str) -> None:
    if python:
        raise UsageError(
            "--python only works on this machine",
            "A running server has its own interpreter: its operator sets KEVOLVE_PYTHON.",
        )


def _only_at_home(what: str) -> UsageError:
    return UsageError(
        f"{what} on the machine where the server's home is, not through the server.",
        f"Run it there, without {variable('server')}.",
    )


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
            "the server's URL may only have a host, a port and a path",
            f"Put the token into KEVOLVE_TOKEN. {example}",
        )
    path = parts.path if parts.path.strip("/") else PATH
    return urlunsplit((parts.scheme, parts.netloc, path, "", "")), _is_local(host)


def _is_local(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
