"""The interface that commands use wherever they run, and tool calls that wait for the answer."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import anyio

if TYPE_CHECKING:
    from mcp.types import Implementation

    from kevolve_mcp.driver import Answer, Connection, Tools
    from kevolve_mcp.server.diagnosis import Diagnosis
    from kevolve_mcp.sessions import Service
    from kevolve_mcp.sessions.types import Text

    from ..judging import FileOrder
    from ..meeting import FileMeeting
    from ..verdicts import Verdict

Announce = Callable[[str], None]
"""Takes a progress message for a reader."""


def identity(name: str) -> Implementation:
    """Return a command's name with this version: the caller that a server records."""
    from importlib.metadata import version

    from mcp.types import Implementation

    return Implementation(name=name, version=version("kevolve-mcp"))


class FileJudge(Protocol):
    """A judge of candidate files for one open task."""

    def verdicts(self) -> AsyncIterator[Verdict]:
        """Judge each candidate, in the order given. One that cannot be read or judged does not stop
        the others.

        Raises:
            Unavailable: The machine lacks what it needs.
        """

    async def meet(self, verdicts: Sequence[Verdict]) -> tuple[FileMeeting | None, list[Verdict]]:
        """Time the candidates that may be the best against each other.

        Args:
            verdicts: One for each candidate.

        Returns:
            The results, None where fewer than two candidates are correct; and the verdicts
            completed with them.
        """


class Backend(Protocol):
    """What commands need, from one place.

    Every method raises UsageError for what this place does not offer, naming the one that does;
    KevolveErrors of the layers below pass through.
    """

    @property
    def shares_files(self) -> bool:
        """Return whether it sees the files of this machine. If not, texts are sent, and packages
        come back as texts."""

    def text(self, path: Path, what: str) -> Text:
        """Return a file as the tools take it.

        Args:
            path: The file.
            what: What it is, for messages, e.g. "candidate".

        Raises:
            UsageError: It cannot be read.
        """

    def looking(self) -> AbstractAsyncContextManager[Tools]:
        """Open the read-only tools."""

    def tools(self, python: str = "") -> AbstractAsyncContextManager[Tools]:
        """Open all tools.

        Args:
            python: The interpreter that evaluates; "" for the configured one.
        """

    def connection(
        self, restarted: Callable[[str], None], *, debug: bool = False
    ) -> AbstractAsyncContextManager[Connection]:
        """Open all tools of a separate server, reconnecting when the connection is lost.

        Args:
            restarted: Called with a message after reconnecting.
            debug: Whether a server started for it writes its log to stderr.
        """

    def judge(
        self, order: FileOrder, announce: Announce, *, python: str = "", fresh: bool = False
    ) -> AbstractAsyncContextManager[FileJudge]:
        """Open a task outside of any session, to judge candidates.

        Args:
            order: What to judge.
            announce: Takes progress messages.
            python: The interpreter that evaluates; "" for one near the task.
            fresh: Whether to ignore what is remembered of the task.

        Raises:
            TaskRefused: The task must be fixed.
            Unavailable: The machine lacks what it needs.
        """

    async def template(self, task: Path, target: str, language: str, python: str = "") -> str:
        """Open a task and return a candidate file for it whose body is to be filled in."""

    async def diagnose(self, python: str = "") -> Diagnosis:
        """Diagnose what the judging machine can do and what it lacks."""

    def home(self, what: str) -> Path:
        """Return the folder of database, documents and exports.

        Args:
            what: What is done there, for the refusal: "an approval is given".
        """

    def service(self, what: str) -> AbstractAsyncContextManager[Service]:
        """Open the sessions of the home; no job runs there.

        Args:
            what: As for `home`.
        """


WAIT_S = 20.0  # of one call that waits for a job; for a longer job the call is repeated


def look_up(backend: Backend, tool: str, arguments: dict[str, Any]) -> Answer:
    """Call a read-only tool. Raises the KEvolveError that it ends with."""

    async def run() -> Answer:
        async with backend.looking() as tools:
            return await tools.call(tool, arguments)

    return anyio.run(run)


def look_through(
    backend: Backend, tool: str, arguments: dict[str, Any], *, place: str = "cursor"
) -> list[Answer]:
    """Return all parts of an answer that comes in parts. Raises as `look_up`.

    Args:
        backend: Where to call.
        tool: A read-only tool.
        arguments: Those of the first call.
        place: The argument that says where a part begins.
    """

    async def run() -> list[Answer]:
        async with backend.looking() as tools:
            parts = [await tools.call(tool, arguments)]
            while following := parts[-1].data.get("next_cursor"):
                parts.append(await tools.call(tool, {**arguments, place: following}))
            return parts

    return anyio.run(run)


def done(backend: Backend, tool: str, arguments: dict[str, Any], *, python: str = "") -> Answer:
    """Call a tool that starts a job, and wait for the job. Raises as `look_up`.

    Args:
        backend: Where to call.
        tool: A tool that may answer before its job is done.
        arguments: Those of the call.
        python: The interpreter that evaluates; "" for the configured one.
    """

    async def run() -> Answer:
        from kevolve_mcp.driver import settled

        async with backend.tools(python) as tools:
            return await settled(tools, await tools.call(tool, arguments), WAIT_S)

    return anyio.run(run)
