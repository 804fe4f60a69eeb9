"""Running the driver for `kevolve optimize`: options in, events to a display, the outcome back."""

from __future__ import annotations

import shutil
import sys
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import anyio

from harness.types import Budget, Goal
from harness.types import Target as TargetName
from kevolve_mcp.driver import Driver, Event, Options, Outcome, connect, events
from kevolve_mcp.errors import UsageError
from kevolve_mcp.settings import Settings
from kevolve_mcp.synthesis.authors import OfflineAuthor, make_author

from .connect import open_log, stdio
from .files import find_task, read_text
from .render import Board, board_view, plain_line
from .terminal import err, is_live

if TYPE_CHECKING:
    from rich.live import Live

REDRAW_PER_S = 4
DEFAULT_BUDGET = Budget(evaluations=40, seconds=90)  # a first result within minutes; re-validation comes on top


@dataclass(frozen=True)
class Run:
    """The arguments of `kevolve optimize`."""

    task: Path | None
    start: Path | None
    target: str
    language: str
    goal: str
    evaluations: int | None
    minutes: float | None
    skills: bool
    author: str
    selection: str
    seed: int | None
    jobs: int
    resume: str
    new: bool
    python: str
    debug: bool

    @property
    def budget(self) -> Budget:
        """What was said; what holds when nothing was said."""
        if self.evaluations is None and self.minutes is None:
            return DEFAULT_BUDGET
        return Budget(evaluations=self.evaluations, seconds=self.minutes * 60 if self.minutes else None)

    def options(self) -> tuple[Options, list[str]]:
        """What the driver is asked, and remarks for the reader. Raises UsageError for what the user can mend."""
        if self.resume:
            return Options(resume=self.resume, jobs=self.jobs), []
        assert self.task is not None
        remarks: list[str] = []
        files = find_task(self.task)
        start = self.start.expanduser().absolute() if self.start else None
        if start is None and files.start is not None:
            start = files.start
            remarks.append(f"starting from {start}, which lies beside the task (another one: --start FILE)")
        if start is not None:
            read_text(start, "start")
        try:
            Goal.parse(self.goal)
            TargetName.parse(self.target)
        except ValueError as error:
            raise UsageError(str(error), "`kevolve optimize --help` shows examples.") from None
        policy: dict[str, Any] = {} if self.skills else {"skills": False}
        if self.selection:
            policy["selection"] = self.selection
        if self.seed is not None:
            policy["seed"] = self.seed
        options = Options(
            task_path=str(files.task),
            start_path=str(start or ""),
            target=self.target,
            language=self.language,
            goal=self.goal,
            budget=self.budget,
            python=self.python,
            policy=policy,
            new=self.new,
            jobs=self.jobs,
        )
        return options, remarks


class Watcher:
    """Folds events into a board and shows it: redrawn on a terminal, line by line elsewhere. A context manager."""

    def __init__(self, *, live: bool) -> None:
        self.board = Board()
        self.session_id = ""
        self._live = live and is_live()
        self._console = err()
        self._display: Live | None = None
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        if self._live:
            from rich.live import Live

            self._display = self._stack.enter_context(
                Live(console=self._console, refresh_per_second=REDRAW_PER_S, get_renderable=lambda: board_view(self.board))
            )
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stack.close()
        self._display = None

    def __call__(self, event: Event) -> None:
        self.board = self.board.after(event)
        if isinstance(event, events.Opened):
            self.session_id = event.session.id
        if self._display is None and (line := plain_line(event, self.board)):
            self.say(line)

    def say(self, line: str) -> None:
        self._console.print(line, markup=False, soft_wrap=True)


def execute(run: Run, watcher: Watcher) -> Outcome:
    """The whole run. Raises KEvolveError, and KeyboardInterrupt once everything is stopped."""
    options, remarks = run.options()
    for remark in remarks:
        watcher.say(remark)
    with ExitStack() as stack:
        log = sys.stderr if run.debug else stack.enter_context(open_log(Settings().home))
        stack.enter_context(watcher)

        async def drive() -> Outcome:
            borrows_nothing = run.author == OfflineAuthor.name and not run.skills
            author = make_author(run.author, **({"skills": ()} if borrows_nothing else {}))
            try:
                async with connect(stdio(log), lambda text: watcher(events.Remark(text)), f"Its log: {log.name}") as server:
                    return await Driver(server, author, options, watcher).run()
            finally:
                await author.close()

        return anyio.run(drive)


def how_to_resume(session_id: str) -> str:
    """What to say when a run was stopped."""
    if not session_id:
        return "Stopped before the session was open; nothing was lost."
    return f"Stopped. Everything measured is kept; go on with: kevolve optimize --resume {session_id}"


def check_destination(to: Path | None) -> None:
    """Raises UsageError when a package cannot be copied to `to`; asked before the work, not after it."""
    if to is not None and to.exists() and (not to.is_dir() or any(to.iterdir())):
        raise UsageError(f"{to} exists and is not an empty folder", "Name a folder that does not exist yet.")


def copy_package(outcome: Outcome, to: Path) -> str:
    """Copy the exported package; the path of the copy, "" where nothing was exported. Raises UsageError."""
    if outcome.ending is None or not outcome.ending.package:
        return ""
    try:
        shutil.copytree(outcome.ending.package, to, dirs_exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"the package could not be copied to {to}: {error.strerror or error}", f"It lies in {outcome.ending.package}."
        ) from None
    return str(to.absolute())
