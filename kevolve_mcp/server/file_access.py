"""Which files a caller's paths may name.

Over stdio the caller started this process and may read what the process reads. Over HTTP it is
whoever holds the token, perhaps on another machine: its paths name Python files below the folders
that the server was started for, and nothing else.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from pathlib import Path

from anyio import to_thread

from kevolve_mcp.errors import UsageError
from kevolve_mcp.sessions.types import Text


class FileAccess:
    """Access to every file that the process can read, and to every interpreter. note: what a
    client reads about it."""

    note = ""

    async def text(self, path: str, source: str, name: str = "") -> Text:
        """Return a path or a source. name: the arguments' prefix in messages ("task_"). Raises
        UsageError for a path that may not be named."""
        if path and source:
            raise UsageError(f"{name}path and {name}source were both given", "Give one of them.")
        return Text(path, source)

    def python(self, python: str) -> str:
        """Return the interpreter that the caller names. Raises UsageError where it may not."""
        return python


ANY_FILE = FileAccess()


class FilesBelow(FileAccess):
    """Access to Python files below `roots`.

    A path must be absolute and without `..`; it is resolved, and the result must be a regular .py
    file below a root and outside `closed` (the home, with database and token). The same holds for
    the companions of a task: task.py, start.py (start_LANGUAGE.py) and NAME.heldout.py beside it.
    Nothing outside is examined, so a refusal does not reveal what exists. The resolved path is
    passed on; between check and read, only somebody who can write below a root could replace it.
    """

    def __init__(
        self,
        roots: Sequence[Path],
        *,
        closed: Sequence[Path] = (),
        any_python: bool = False,
        task_texts: bool = True,
    ) -> None:
        self.roots = tuple(Path(os.path.realpath(root)) for root in roots)
        self._closed = tuple(Path(os.path.realpath(folder)) for folder in closed)
        self._any_python = any_python
        self._task_texts = task_texts
        self._where = " or ".join(map(str, self.roots))
        self.note = f"On this server, paths name .py files below {self._where}" + (
            "; for anything else pass its text.\n"
            if task_texts
            else ". Tasks must be such paths; kernels may be text.\n"
        )

    async def text(self, path: str, source: str, name: str = "") -> Text:
        named = await super().text(path, source, name)
        if named.source and name == "task_" and not self._task_texts:
            raise UsageError(
                "this server accepts no task as text",
                "Its operator chooses the tasks: give task_path, the absolute path of a task below "
                f"{self._where}.",
            )
        return (
            Text(await to_thread.run_sync(self._checked, named.path, name)) if named.path else named
        )

    def python(self, python: str) -> str:
        if python and not self._any_python:
            raise UsageError(
                "the argument python is refused over HTTP: it would start a program of the "
                "caller's choice",
                "Leave it out. The operator of the server can set KEVOLVE_PYTHON, or start it with "
                "--allow-python.",
            )
        return python

    def _checked(self, path: str, name: str) -> str:
        """The path resolved, after checking it and the companions that would be read with it.
        Raises UsageError."""
        argument = f"{name}path"
        if "\0" in path:
            raise UsageError(
                f"{argument} contains a NUL character",
                f"Give a plain absolute path below {self._where}.",
            )
        parts = Path(path)
        if not parts.is_absolute() or ".." in parts.parts:
            why = "contains '..'" if parts.is_absolute() else "is not absolute"
            raise UsageError(
                f"{argument} {path!r:.200} {why}",
                f"Over HTTP a path must be absolute, without '..', below {self._where}; or pass "
                f"the text as {name}source.",
            )
        resolved = self._resolved(path, argument, name)
        if os.path.isdir(resolved):
            inside = Path(resolved) / ("task.py" if name == "task_" else "start.py")
            task = Path(self._file(inside, argument, name)) if os.path.lexists(inside) else inside
        else:
            task = Path(self._file(resolved, argument, name))
        if name == "task_":
            from harness.languages import LANGUAGES
            from kevolve_mcp.sessions import inputs

            for companion in (
                *inputs.starts_beside(task, LANGUAGES),
                task.with_name(f"{task.stem}.heldout.py"),
            ):
                if os.path.lexists(companion):
                    self._file(companion, f"{companion.name} beside the task of {argument}", name)
        return resolved

    def _file(self, path: Path | str, what: str, name: str) -> str:
        """A regular .py file below a root, or one that does not exist: whoever reads it reports
        that."""
        resolved = self._resolved(str(path), what, name)
        try:
            kind = os.stat(resolved).st_mode
        except OSError:
            kind = stat.S_IFREG
        if not stat.S_ISREG(kind) or not resolved.endswith(".py"):
            raise UsageError(
                f"{what} is not a Python file (.py)",
                f"A task or candidate is a Python file; or pass its text as {name}source.",
            )
        return resolved

    def _resolved(self, path: str, what: str, name: str) -> str:
        try:
            resolved = Path(os.path.realpath(path))
        except ValueError as error:  # e.g. a lone surrogate, which no file name can hold
            raise UsageError(
                f"{what} is not a valid path: {error}",
                f"Give an absolute path below {self._where}.",
            ) from None
        inside = any(resolved.is_relative_to(root) for root in self.roots)
        if not inside or any(resolved.is_relative_to(folder) for folder in self._closed):
            raise UsageError(
                f"{what} leads outside the folders that this server reads over HTTP",
                f"It reads .py files below {self._where} (kevolve serve --http --root DIR); or "
                f"pass the text as {name}source.",
            )
        return str(resolved)


def default_root() -> Path:
    """Return the current folder. Raises UsageError where that exposes far too much: the root of the
    file system, or a folder that contains the user's home."""
    here = Path.cwd().resolve()
    if Path.home().resolve().is_relative_to(here):
        raise UsageError(
            f"the server was started in {here}, and callers could name every Python file below it",
            "Start it in the folder that holds the tasks, or name that folder: --root DIR "
            "(repeatable).",
        )
    return here
