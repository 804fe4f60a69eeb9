"""What the commands need, wherever it comes from, and calls of tools that wait for the answer."""

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
"""Takes a sign of life, for a reader."""


def identity(name: str) -> Implementation:
    """Return the name of a command, and this version: who calls, as a server keeps it with what was
    asked."""
    from importlib.metadata import version

    from mcp.types import Implementation

    return Implementation(name=name, version=version("kevolve-mcp"))


class FileJudge(Protocol):
    """Candidates under one task, which is open."""

    def verdicts(self) -> AsyncIterator[Verdict]:
        """Judge each candidate of the order, in its order. One that cannot be read or judged does
        not stop the others.

        Raises:
            Unavailable: The machine lacks what it needs.
        """

    async def meet(self, verdicts: Sequence[Verdict]) -> tuple[FileMeeting | None, list[Verdict]]:
        """Time those that may be the best against each other; None where fewer than two are
        correct.

        Args:
            verdicts: One for each candidate.

        Returns:
            How they fared, and the verdicts with that.
        """


class Backend(Protocol):
    """One way to what the commands need.

    Every method raises UsageError for what this way does not offer, and says which one does; the
    KevolveErrors of what it reaches pass through.
    """

    @property
    def shares_files(self) -> bool:
        """Whether it sees the files of this machine. Where not, texts are sent, and packages come
        back as texts."""

    def text(self, path: Path, what: str) -> Text:
        """Hand a file over.

        Args:
            path: The file.
            what: It is to a reader, e.g. "candidate".

        Raises:
            UsageError: It cannot be read.
        """

    def looking(self) -> AbstractAsyncContextManager[Tools]:
        """Open the tools that only look."""

    def tools(self, python: str = "") -> AbstractAsyncContextManager[Tools]:
        """Open all tools.

        Args:
            python: The interpreter that evaluates; "" for the configured one.
        """

    def connection(
        self, restarted: Callable[[str], None], *, debug: bool = False
    ) -> AbstractAsyncContextManager[Connection]:
        """Open all tools of a server that lives on its own, and is found again when it is lost.

        Args:
            restarted: Is told when that happens.
            debug: Whether a server that is started for it writes its log to stderr.
        """

    def judge(
        self, order: FileOrder, announce: Announce, *, python: str = "", fresh: bool = False
    ) -> AbstractAsyncContextManager[FileJudge]:
        """Open a task outside of any session, to judge candidates.

        Args:
            order: What to judge.
            announce: Takes signs of life.
            python: The interpreter that evaluates; "" for one near the task.
            fresh: Whether nothing is taken that is remembered of the task.

        Raises:
            TaskRefused: The task's text must be fixed.
            Unavailable: The machine lacks what it needs.
        """

    async def template(self, task: Path, target: str, language: str, python: str = "") -> str:
        """Open a task; return a first candidate for it, its body left to fill in."""

    async def diagnose(self, python: str = "") -> Diagnosis:
        """Look at what the machine that judges can do and lacks."""

    def home(self, what: str) -> Path:
        """Return the folder of database, documents and exports.

        Args:
            what: Is done there, for the refusal: "an approval is given".
        """

    def service(self, what: str) -> AbstractAsyncContextManager[Service]:
        """Open the sessions of the home; no job runs there.

        Args:
            what: As for `home`.
        """


WAIT_S = 20.0  # of one call that waits for a job; a longer job is asked for again


def look_up(backend: Backend, tool: str, arguments: dict[str, Any]) -> Answer:
    """Call a tool that only looks. Raises the KEvolveError that it ends with."""

    async def run() -> Answer:
        async with backend.looking() as tools:
            return await tools.call(tool, arguments)

    return anyio.run(run)


def look_through(
    backend: Backend, tool: str, arguments: dict[str, Any], *, place: str = "cursor"
) -> list[Answer]:
    """Take all parts of an answer that comes in several, each of which says where the next begins.
    Raises as `look_up`.

    Args:
        backend: Who is asked.
        tool: A tool that only looks.
        arguments: Of the first call.
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
    """Call a tool that starts a job, and wait for that. Raises as `look_up`.

    Args:
        backend: Who is asked.
        tool: A tool that may answer before its job is done.
        arguments: Of the call.
        python: The interpreter that evaluates; "" for the configured one.
    """

    async def run() -> Answer:
        from kevolve_mcp.driver import settled

        async with backend.tools(python) as tools:
            return await settled(tools, await tools.call(tool, arguments), WAIT_S)

    return anyio.run(run)
