"""Running the driver for `kevolve optimize`: options in, events to a display, the outcome back."""

from __future__ import annotations

import json
import re
import shutil
import sys
import tempfile
from contextlib import AbstractAsyncContextManager, ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import anyio

from harness.types import Budget, Goal
from harness.types import Target as TargetName
from kevolve_mcp.driver import Connection, Driver, Event, Options, Outcome, connect, events
from kevolve_mcp.errors import KEvolveError, UsageError
from kevolve_mcp.sessions.inputs import companion_start, usual_language
from kevolve_mcp.settings import Settings
from kevolve_mcp.synthesis.authors import AuthorOptions, OfflineAuthor, choose_author

from .connect import open_log, running, stdio
from .files import find_task, read_text
from .lookup import place
from .render.board import Board, board_view, plain_line
from .terminal import err, is_live

if TYPE_CHECKING:
    from rich.live import Live

    from .remote import Remote

REDRAW_PER_S = 4
# for a command that writes candidates, in its README
GUIDE = """\
## Try it first

`kevolve` is on the PATH:

* `kevolve evaluate task.py candidate.py --language {language} --target {target}` builds, verifies
  and times it
* `kevolve knowledge search "words"` finds pages; `kevolve tree {session}` shows the search
"""
# a first result within minutes; re-validation comes on top
DEFAULT_BUDGET = Budget(evaluations=40, seconds=75)
# of authors that need a minute for one candidate
THINKING_BUDGET = Budget(evaluations=40, seconds=1800)


@dataclass(frozen=True)
class Run:
    """The arguments of `kevolve optimize`. contents: the package is wanted here."""

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
    inject: float | None
    tune: float | None
    parallel: int
    resume: str
    new: bool
    python: str
    debug: bool
    server: str = ""
    token: str = ""
    contents: bool = False
    base_url: str = ""
    tokens: int | None = None
    usd: float | None = None
    price_in: float | None = None
    price_out: float | None = None
    author_minutes: float | None = None

    @property
    def said(self) -> Budget:
        """The limits that were named."""
        seconds = self.minutes * 60 if self.minutes else None
        return Budget(
            evaluations=self.evaluations, seconds=seconds, tokens=self.tokens, usd=self.usd
        )

    @property
    def budget(self) -> Budget:
        """What was said; what holds when nothing was said."""
        if self.evaluations is not None or self.minutes is not None:
            return self.said
        usual = DEFAULT_BUDGET if self.author == OfflineAuthor.name else THINKING_BUDGET
        return replace(self.said, evaluations=usual.evaluations, seconds=usual.seconds)

    def author_options(self, watcher: Watcher) -> AuthorOptions:
        """What the author is told; what it says on its way is shown as a remark."""
        return AuthorOptions(
            skills=self.skills,
            base_url=self.base_url,
            price_in=self.price_in,
            price_out=self.price_out,
            limit_s=self.author_minutes * 60 if self.author_minutes else None,
            transcripts=Settings().home / "transcripts",
            kevolve=(sys.executable, "-P", "-c", "from kevolve_mcp.cli.main import main; main()"),
            guide=GUIDE,
            usd_capped=self.usd is not None,
            listen=lambda text: watcher(events.Remark(text)),
        )

    def options(self, remote: Remote | None = None) -> tuple[Options, list[str]]:
        """What the driver is asked, and remarks for the reader. remote: the server need not see our
        files: it gets their texts. Raises UsageError for what the user can fix."""
        contents = self.contents and remote is not None
        if self.resume:
            return Options(
                resume=self.resume, budget=self.said, parallel=self.parallel, contents=contents
            ), []
        assert self.task is not None
        remarks: list[str] = []
        task = find_task(self.task)
        try:
            Goal.parse(self.goal)
            TargetName.parse(self.target)
        except ValueError as error:
            raise UsageError(str(error), "`kevolve optimize --help` shows examples.") from None
        start = self.start.expanduser().absolute() if self.start else None
        if start is None and (
            beside := companion_start(str(task), self.language or usual_language(self.target))
        ):
            start = Path(beside)
            remarks.append(
                f"starting from {start}, which lies beside the task (another one: --start FILE)"
            )
        if remote is not None and (companion := task.with_name(f"{task.stem}.heldout.py")).exists():
            remarks.append(f"{companion} is not sent: held-out cases come from the task's own text")
        task_text = read_text(task, "task") if remote is not None else ""
        start_text = read_text(start, "start") if start is not None else ""
        policy: dict[str, Any] = {} if self.skills else {"skills": False}
        if self.selection:
            policy["selection"] = self.selection
        if self.seed is not None:
            policy["seed"] = self.seed
        if self.inject is not None:
            policy["inject"] = self.inject
        if self.tune is not None:
            policy["tune"] = self.tune
        options = Options(
            task_path=str(task) if remote is None else "",
            start_path=str(start or "") if remote is None else "",
            task_source=task_text,
            start_source=start_text if remote is not None else "",
            target=self.target,
            language=self.language,
            goal=self.goal,
            budget=self.budget,
            python=self.python,
            policy=policy,
            new=self.new,
            parallel=self.parallel,
            contents=contents,
        )
        return options, remarks


class Watcher:
    """Folds events into a board and shows it: redrawn on a terminal, line by line elsewhere. A
    context manager."""

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
                Live(
                    console=self._console,
                    refresh_per_second=REDRAW_PER_S,
                    get_renderable=lambda: board_view(self.board),
                )
            )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
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
    remote = place(run.server, run.token)
    options, remarks = run.options(remote)
    for remark in remarks:
        watcher.say(remark)
    with ExitStack() as stack:
        connection = _connection(run, remote, watcher, stack)
        stack.enter_context(watcher)

        async def drive() -> Outcome:
            author = choose_author(run.author, run.author_options(watcher))
            try:
                async with connection as server:
                    return await Driver(server, author, options, watcher).run()
            finally:
                await author.close()

        return anyio.run(drive)


def _connection(
    run: Run, remote: Remote | None, watcher: Watcher, stack: ExitStack
) -> AbstractAsyncContextManager[Connection]:
    """To the running server, or to one that is started now, whose log stays open as long as the
    stack."""

    def restarted(text: str) -> None:
        watcher(events.Remark(text))

    if remote is not None:
        stack.enter_context(remote.inherited())
        return running(remote, restarted, "kevolve optimize")
    log = sys.stderr if run.debug else stack.enter_context(open_log(Settings().home))
    return connect(stdio(log), restarted, f"Its log: {log.name}")


def how_to_resume(session_id: str, server: str = "") -> str:
    """What to say when a run was stopped. server: as --server named it."""
    if not session_id:
        return "Stopped before the session was open; nothing was lost."
    there = f" --server {server}" if server else ""
    return (
        "Stopped. Everything measured is kept; go on with: kevolve optimize --resume "
        f"{session_id}{there}"
    )


def handed_over(outcome: Outcome) -> tuple[str, ...]:
    """The cases that the exported package hands to the reference, as far as the package can be read
    here."""
    from kevolve_mcp.export import read_package

    if outcome.ending is None or not outcome.ending.package:
        return ()
    if manifest := outcome.ending.contents.get("manifest.json"):
        return tuple(json.loads(manifest).get("reference_cases", ()))
    try:
        return read_package(Path(outcome.ending.package)).manifest.reference_cases
    except KEvolveError:  # on another machine
        return ()


def check_destination(to: Path | None) -> None:
    """Raises UsageError when a package cannot be copied to `to`; asked before the work, not after
    it."""
    if to is None:
        return
    if to.exists() and (not to.is_dir() or any(to.iterdir())):
        raise UsageError(
            f"{to} exists and is not an empty folder", "Name a folder that does not exist yet."
        )
    existing = next(p for p in (to.absolute(), *to.absolute().parents) if p.exists())
    try:
        with tempfile.TemporaryFile(dir=existing):
            pass
    except OSError as error:
        raise UsageError(
            f"{to} cannot be made in {existing}: {error.strerror}",
            "Name a folder that you may write.",
        ) from None


def copy_package(outcome: Outcome, to: Path) -> str:
    """Copy the exported package; the path of the copy, "" where nothing was exported. Raises
    UsageError."""
    if outcome.ending is None or not outcome.ending.package:
        return ""
    try:
        if outcome.ending.contents:
            _write(outcome.ending.contents, to)
        else:
            shutil.copytree(outcome.ending.package, to, dirs_exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"the package could not be copied to {to}: {error.strerror or error}",
            f"It lies in {outcome.ending.package}.",
        ) from None
    return str(to.absolute())


_PLAIN = re.compile(r"(native/)?\w[\w.]*")  # of a file of a package: never upwards


def _write(contents: dict[str, str], to: Path) -> None:
    """A package that came as text. Raises UsageError for names that are not plain: they would leave
    the folder."""
    odd = [name for name in contents if not _PLAIN.fullmatch(name)]
    if odd:
        raise UsageError(
            f"the server named a file of the package {odd[0]!r:.80}",
            "That is no server of KEvolve; nothing was written.",
        )
    to.mkdir(parents=True, exist_ok=True)
    for name, text in contents.items():
        (to / name).parent.mkdir(exist_ok=True)
        (to / name).write_text(text, encoding="utf-8")
