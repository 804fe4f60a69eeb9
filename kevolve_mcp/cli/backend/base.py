"""What the commands need, wherever it comes from."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from kevolve_mcp.driver import Connection, Tools
    from kevolve_mcp.server.diagnosis import Diagnosis
    from kevolve_mcp.sessions import Service
    from kevolve_mcp.sessions.types import Text

    from ..judging import FileOrder
    from ..meeting import FileMeeting
    from ..verdicts import Verdict

Announce = Callable[[str], None]
"""Takes a sign of life, for a reader."""


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
