"""Running the driver for `kevolve optimize`: options in, events to a display, the outcome back."""

from __future__ import annotations

import json
import re
import shutil
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

import anyio

from harness.types import Budget
from harness.types import Target as TargetName
from kevolve_mcp.driver import Driver, Event, Options, RunOutcome, events
from kevolve_mcp.driver.answers import UNLIMITED
from kevolve_mcp.errors import KEvolveError, UsageError
from kevolve_mcp.sessions.inputs import companion_start
from kevolve_mcp.sessions.types import SessionSpec, Text
from kevolve_mcp.settings import Settings
from kevolve_mcp.synthesis.authors import AuthorOptions, OfflineAuthor, choose_author
from kevolve_mcp.visible import visible

from .files import stays_here
from .render.board import Board, board_view, plain_line
from .terminal import err, is_live

if TYPE_CHECKING:
    from rich.live import Live

    from .backend import Backend

REDRAW_PER_S = 4
# part of the README for a command that writes candidates
GUIDE = """\
## Try it first

`kevolve` is on the PATH:

* `kevolve evaluate task.py candidate.py --language {language} --target {target}` builds, verifies
  and times it
* `kevolve knowledge search "words"` finds pages; `kevolve tree {session}` shows the search
"""
# gives a first result within minutes; re-validation comes on top
DEFAULT_BUDGET = Budget(evaluations=40, seconds=75)
# for authors that need a minute for one candidate
THINKING_BUDGET = Budget(evaluations=40, seconds=1800)


@dataclass(frozen=True)
class Run:
    """What `kevolve optimize` is asked to do."""

    session: SessionSpec | None
    """The session to open, by paths on this machine; None with `resume`."""
    author: str
    options: AuthorOptions
    """The user's options for the author."""
    resume: str = ""
    """The id of the session to go on with."""
    more: Budget = UNLIMITED
    """With `resume`: what the session may spend from now on."""
    parallel: int = 1
    contents: bool = False
    """Whether the package's files are needed on this machine."""
    debug: bool = False


def usual_budget(named: Budget, author: str) -> Budget:
    """Return the limits that were named, and the defaults where neither evaluations nor time are
    named."""
    if named.evaluations is not None or named.seconds is not None:
        return named
    usual = DEFAULT_BUDGET if author == OfflineAuthor.name else THINKING_BUDGET
    return replace(named, evaluations=usual.evaluations, seconds=usual.seconds)


def start_beside(spec: SessionSpec) -> SessionSpec:
    """Return the spec with the kernel beside the task as its start, if no start is named."""
    language = spec.language or TargetName.parse(spec.target).usual_language
    companion = "" if spec.start else companion_start(spec.task.path, language)
    return replace(spec, start=Text(path=companion)) if companion else spec


def _sent(spec: SessionSpec, backend: Backend) -> SessionSpec:
    """The spec as the server gets it. Raises UsageError for a file that cannot be read."""
    start = backend.text(Path(spec.start.path), "start") if spec.start else Text()
    return replace(spec, task=backend.text(Path(spec.task.path), "task"), start=start)


def _remarks(requested: SessionSpec, spec: SessionSpec, backend: Backend) -> list[str]:
    """Remarks on the files that are used."""
    remarks = []
    if spec.start != requested.start:
        remarks.append(
            f"starting from {spec.start.path}, found beside the task (another one: --start FILE)"
        )
    if not backend.shares_files and (remark := stays_here(Path(spec.task.path))):
        remarks.append(remark)
    return remarks


def _author_options(run: Run, watcher: Watcher) -> AuthorOptions:
    """The author's options; its messages are shown as remarks."""
    return replace(
        run.options,
        transcripts=Settings().home / "transcripts",
        kevolve=(sys.executable, "-P", "-c", "from kevolve_mcp.cli.main import main; main()"),
        guide=GUIDE,
        listen=lambda text: watcher(events.Remark(text)),
    )


class Watcher:
    """A context manager that turns events into a board and shows it: redrawn on a terminal, line by
    line elsewhere."""

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
        if isinstance(event, events.SessionOpened):
            self.session_id = event.session.id
        if self._display is None and (line := plain_line(event, self.board)):
            self.say(line)

    def say(self, line: str) -> None:
        self._console.print(visible(line), markup=False, soft_wrap=True)


def execute(run: Run, backend: Backend, watcher: Watcher) -> RunOutcome:
    """Execute the whole run. Raises KEvolveError, and KeyboardInterrupt once everything is
    stopped."""
    session = run.session
    if run.session is not None:
        spec = start_beside(run.session)
        for remark in _remarks(run.session, spec, backend):
            watcher.say(remark)
        session = _sent(spec, backend)
    options = Options(
        session,
        resume=run.resume,
        more=run.more,
        parallel=run.parallel,
        contents=run.contents and not backend.shares_files,
    )

    def restarted(text: str) -> None:
        watcher(events.Remark(text))

    async def drive() -> RunOutcome:
        author = choose_author(run.author, _author_options(run, watcher))
        try:
            async with backend.connection(restarted, debug=run.debug) as server:
                return await Driver(server, author, options, watcher).run()
        finally:
            await author.close()

    with watcher:
        return anyio.run(drive)


def how_to_resume(session_id: str, server: str = "") -> str:
    """Return the message for a stopped run. server: as given with --server."""
    if not session_id:
        return "Stopped before the session was opened; nothing was lost."
    there = f" --server {server}" if server else ""
    return (
        "Stopped. Everything measured is kept; go on with: kevolve optimize --resume "
        f"{session_id}{there}"
    )


def handed_over(outcome: RunOutcome) -> tuple[str, ...]:
    """Return the cases that the exported package hands to the reference, none where the package
    cannot be read here."""
    from kevolve_mcp.export import read_package

    if outcome.ending is None or not outcome.ending.package:
        return ()
    if manifest := outcome.ending.contents.get("manifest.json"):
        return tuple(json.loads(manifest).get("reference_cases", ()))
    try:
        return read_package(Path(outcome.ending.package)).manifest.reference_cases
    except KEvolveError:  # the package is on another machine
        return ()


def check_destination(to: Path | None) -> None:
    """Check, before the work starts, that a package can be copied to `to`. Raises UsageError."""
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
            f"{to} cannot be created in {existing}: {error.strerror}",
            "Name a folder that you can write to.",
        ) from None


def copy_package(outcome: RunOutcome, to: Path) -> str:
    """Copy the exported package and return the path of the copy, "" where nothing was exported.
    Raises UsageError."""
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
            f"It is still in {outcome.ending.package}.",
        ) from None
    return str(to.absolute())


_PLAIN = re.compile(r"(native/)?\w[\w.]*")  # name of a file of a package, inside its folder


def _write(contents: dict[str, str], to: Path) -> None:
    """Write a package that came as text. Raises UsageError for names that could leave the
    folder."""
    odd = [name for name in contents if not _PLAIN.fullmatch(name)]
    if odd:
        raise UsageError(
            f"the server sent a package with the file name {odd[0]!r:.80}",
            "It is not a KEvolve server; nothing was written.",
        )
    to.mkdir(parents=True, exist_ok=True)
    for name, text in contents.items():
        (to / name).parent.mkdir(exist_ok=True)
        (to / name).write_text(text, encoding="utf-8")
