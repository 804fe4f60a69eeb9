"""An author that runs a command, such as an agent program: one stateless run per ask, in a folder
with the context."""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from subprocess import PIPE, STDOUT
from typing import Any

import anyio
from anyio.abc import Process

from kevolve_mcp.actions import Action
from kevolve_mcp.errors import UsageError
from kevolve_mcp.synthesis.ask import AskAllowance, AskContext

from . import scratch, supervisor
from .answers import InvalidAnswer, check_source, words
from .base import FREE, Author, AuthorError, AuthorUnusable, Cost, Proposal, starting_kernel

HEAD = 256 * 1024
TAIL = 256 * 1024


class Transcript:
    """The output of a run, of which at most HEAD + 2 * TAIL bytes are held; `save` writes it."""

    def __init__(self) -> None:
        self._head = bytearray()
        self._tail = bytearray()
        self._dropped = 0

    def add(self, data: bytes) -> None:
        room = HEAD - len(self._head)
        self._head += data[:room]
        self._tail += data[room:] if room < len(data) else b""
        if len(self._tail) > 2 * TAIL:
            self._cut()

    def _cut(self) -> None:
        over = len(self._tail) - TAIL
        if over > 0:
            del self._tail[:over]
            self._dropped += over

    def text(self) -> str:
        """Return what is held, with the gap marked."""
        self._cut()
        gap = f"\n[… {self._dropped:,} bytes left out …]\n".encode() if self._dropped else b""
        return (bytes(self._head) + gap + bytes(self._tail)).decode(errors="replace")

    def last_line(self, limit: int = 200) -> str:
        """Return the last line that is not empty, "" without one."""
        lines = [line.strip() for line in self.text().splitlines() if line.strip()]
        return lines[-1][:limit] if lines else ""

    def save(self, folder: Path, name: str, heading: str) -> Path:
        """Write it to folder/name.log, or name-2.log if that exists; return the path."""
        folder.mkdir(parents=True, exist_ok=True)
        number, path = 1, folder / f"{name}.log"
        while path.exists():
            number += 1
            path = folder / f"{name}-{number}.log"
        path.write_text(f"{heading}\n\n{self.text()}", encoding="utf-8")
        return path


LIMIT_S = 600.0  # of one run
# also when the session's time is nearly up, since the ask was already given out
LEAST_S = 5.0
NO_SUCH_COMMAND = 127  # of /bin/sh
STOP_S = 5.0


@dataclass(frozen=True)
class _Run:
    status: int
    transcript: Transcript


class CommandAuthor(Author):
    """`--author "cmd: COMMAND"`: COMMAND is a line for /bin/sh, run in a fresh folder that
    `scratch` fills.

    It is not confined: the user chose it, and it runs with the user's rights, environment and keys.
    It ends, with all processes it started, when it has answered, when its time is up, when the run
    is cancelled, and when this process is killed. Its output is kept under `transcripts`. Its cost
    is known only if answer.json states it.
    """

    name = "cmd"

    def __init__(
        self,
        command: str,
        *,
        transcripts: Path | None = None,
        kevolve: Sequence[str] = (),
        guide: str = "",
        limit_s: float = LIMIT_S,
        listen: Callable[[str], None] | None = None,
    ) -> None:
        """Create the author. Raises UsageError for an empty command, AuthorUnusable where its
        program is missing.

        Args:
            command: The line for /bin/sh.
            transcripts: The folder for transcripts, one folder per session; None keeps none.
            kevolve: The command that starts KEvolve's command line, put on the command's PATH.
            guide: How to try a candidate with it; see `scratch.fill`.
            limit_s: The time limit of one run.
            listen: Called with remarks for the user.
        """
        self._command = command.strip()
        if not self._command:
            raise UsageError("the author cmd: has no command", "", _another("cmd: my-agent …"))
        self._check_program()
        self._transcripts = transcripts
        self._kevolve, self._guide = tuple(kevolve), guide
        self._limit_s = limit_s
        self._listen = listen or (lambda text: None)

    async def propose(self, ask: AskContext) -> Proposal:
        if (start := starting_kernel(ask)) is not None:
            return start
        limit_s = (
            self._limit_s
            if ask.allowance.seconds is None
            else max(LEAST_S, min(self._limit_s, ask.allowance.seconds))
        )
        base = Path(await anyio.to_thread.run_sync(tempfile.mkdtemp, None, "kevolve-author-"))
        try:
            folder = base / "work"
            await anyio.to_thread.run_sync(self._prepare, base, folder, ask, limit_s)
            run = await self._run(folder, base / "bin", limit_s)
            source, data, complaint = await anyio.to_thread.run_sync(scratch.read_back, folder)
            kept = await anyio.to_thread.run_sync(self._keep, ask, run)
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(shutil.rmtree, base, True)
        return self._proposal(ask, run, source, data, complaint, kept)

    def _proposal(
        self,
        ask: AskContext,
        run: _Run,
        source: str,
        data: dict[str, Any],
        complaint: str,
        kept: str,
    ) -> Proposal:
        cost = _cost(data)
        if run.status == NO_SUCH_COMMAND and not source:
            raise AuthorUnusable(
                f"the command was not found: {run.transcript.last_line()}",
                "Install it, or name another author.",
                FREE,
                _another(),
            )
        _check_counted(data, ask.allowance, cost)
        ended = _ended(run)
        if not source.strip():
            last = (
                f"; its last line: {run.transcript.last_line()}"
                if run.transcript.last_line()
                else ""
            )
            raise AuthorError(
                f"the command wrote no {scratch.CANDIDATE} ({ended}{last})", kept, cost
            )
        try:
            check_source(source, ask.language)
        except InvalidAnswer as error:
            raise AuthorError(
                f"the command's {scratch.CANDIDATE} cannot be used ({ended}): {error}", kept, cost
            ) from None
        if complaint:
            self._listen(f"{ask.id}: {complaint}; the candidate is used without it")
        if run.status != 0:
            self._listen(f"{ask.id}: the command {ended}; its candidate is used")
        said = words(data)
        return Proposal(
            source, ask.language, said.hypothesis, said.predicted_speedup, said.rationale, cost
        )

    async def _run(self, folder: Path, programs: Path, limit_s: float) -> _Run:
        environment = {
            **os.environ,
            "PATH": f"{programs}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
            "PWD": str(folder),
        }
        transcript = Transcript()
        argv = [sys.executable, "-I", supervisor.__file__, str(limit_s), self._command]
        process = await anyio.open_process(
            argv, stdin=PIPE, stdout=PIPE, stderr=STDOUT, cwd=folder, env=environment
        )
        try:
            assert process.stdout is not None
            async for chunk in process.stdout:
                transcript.add(chunk)
            return _Run(await process.wait(), transcript)
        finally:
            with anyio.CancelScope(shield=True):
                await _let_go(process)

    def _keep(self, ask: AskContext, run: _Run) -> str:
        """Save the transcript; return a hint with its path."""
        if self._transcripts is None:
            return ""
        heading = f"# {self._command}\n# {ask.session} {ask.id}: {_ended(run)}"
        path = run.transcript.save(self._transcripts / ask.session, ask.id, heading)
        return f"Its output: {path}"

    def _prepare(self, base: Path, folder: Path, ask: AskContext, limit_s: float) -> None:
        folder.mkdir()
        scratch.fill(folder, ask, limit_s, self._guide)
        scratch.programs(base / "bin", self._kevolve)

    def _check_program(self) -> None:
        """Check a first word that is plainly a program's name; the shell handles anything else."""
        first = self._command.split()[0]
        if (
            re.fullmatch(r"[\w.+-]+", first)
            and shutil.which(first) is None
            and not _is_builtin(first)
        ):
            raise AuthorUnusable(
                f"the command {first!r} was not found",
                "Install it, or name another one; `cmd:` runs any command.",
                FREE,
                _another("cmd: …"),
            )


async def _let_go(process: Process) -> None:
    """End the run: the supervisor kills all its processes when its stdin closes."""
    if process.stdin is not None:
        with suppress(OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
            await process.stdin.aclose()
    with anyio.move_on_after(STOP_S):
        await process.wait()
    if process.returncode is None:
        process.kill()
    await process.aclose()


def _ended(run: _Run) -> str:
    if run.status == supervisor.TIME_UP:
        return "was stopped when its time was up"
    return "ended" if run.status == 0 else f"ended with exit status {run.status}"


def _cost(data: dict[str, Any]) -> Cost:
    """The cost in answer.json; values that are not counts of tokens or dollars are ignored."""
    tokens, usd = data.get("tokens"), data.get("usd")
    counted = (
        int(tokens)
        if isinstance(tokens, (int, float)) and not isinstance(tokens, bool) and 0 <= tokens < 1e12
        else 0
    )
    paid = (
        float(usd)
        if isinstance(usd, (int, float)) and not isinstance(usd, bool) and 0 <= usd < 1e9
        else 0.0
    )
    return Cost(counted, paid)


def _check_counted(data: dict[str, Any], allowance: AskAllowance, cost: Cost) -> None:
    """Check that each limited cost is reported, or the limit would have no effect. Raises
    AuthorUnusable."""
    for name in ("tokens", "usd"):
        if getattr(allowance, name) is not None and name not in data:
            raise AuthorUnusable(
                f"the session limits {name}, but the command does not report in {scratch.ANSWER} "
                "how many it used",
                f'Let it write "{name}" there, or limit the run by evaluations and minutes, and '
                "the command by its own options.",
                cost,
                Action("give", setting="limits"),
            )


def _another(example: str = "") -> Action:
    return Action("give", "names another author", setting="author", value=example)


def _is_builtin(word: str) -> bool:
    return word in {
        "cd",
        "exec",
        "export",
        "set",
        "if",
        "for",
        "while",
        "test",
        "true",
        "false",
        "umask",
        "ulimit",
        "unset",
        ".",
    }
