"""The files that a task loads from its own folder besides its text. Like the text they decide what
is right, so they belong to its identity."""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import sys
import sysconfig
import tempfile
import threading
from collections.abc import Collection, Mapping
from importlib.machinery import SourceFileLoader
from typing import Any

from .modules import LoadError

MOST = 2000  # the most files that a task may load


class TaskNeighbours:
    """The files below the task's folder that were imported or read, by relative name, with the
    SHA-256 of their content.

    folder: a real path, "" where the task has none. task_files: names of files whose text is known
    already. Installed packages and temporary folders below the folder do not count: an environment
    is not part of the task."""

    def __init__(self, folder: str, task_files: Collection[str]) -> None:
        self._folder = f"{folder.rstrip('/')}/" if folder else ""
        self._task_files = frozenset(task_files)
        self._files: dict[str, tuple[tuple[int, ...], str]] = {}  # the file's stamp and its digest
        self._pinned: dict[str, str] | None = None
        self._modules = 0  # the number already looked at
        self._hashing = threading.local()
        places = [
            sys.prefix,
            sys.exec_prefix,
            sys.base_prefix,
            *sysconfig.get_paths().values(),
            tempfile.gettempdir(),
        ]
        places.append(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
        real = {f"{os.path.realpath(place).rstrip('/')}/" for place in places}
        self._foreign = tuple(p for p in real if p.startswith(self._folder) and p != self._folder)
        if folder:
            _read_sources(self._folder, self._foreign)

    def watch(self) -> None:
        """Record every file that is opened from now on. This cannot be undone, so a timed process
        is not watched; its files are compared instead."""
        if self._folder:
            sys.addaudithook(self._note_opening)

    def digests(self) -> dict[str, str]:
        """Return the digests so far, by name."""
        if self._folder and len(sys.modules) != self._modules:
            self._modules = len(sys.modules)
            for module in tuple(sys.modules.values()):
                file = getattr(module, "__dict__", {}).get("__file__")
                if isinstance(file, str) and file.startswith(self._folder):
                    self._note_file(file)
        return {name: digest for name, (_, digest) in sorted(self._files.items())}

    def pin(self, expected: Mapping[str, str] | None = None) -> dict[str, str]:
        """Return the digests so far and allow no other files from now on. expected: the digests
        that another process with this task found, to be allowed instead. Raises LoadError("task")
        for too many."""
        for name in expected or ():
            self._note_file(self._folder + name)
        digests = self.digests()
        if len(digests) > MOST:
            raise LoadError(
                "task",
                f"the task loads {len(digests)} files from its folder, and at most {MOST} can "
                "belong to it; install what it needs where the evaluator runs",
            )
        self._pinned = dict(digests if expected is None else expected)
        return digests

    def problem(self) -> str:
        """Return which files the task has loaded since `pin` that do not belong to its identity,
        and the fix; "" for none."""
        if self._pinned is None:
            return ""
        digests = self.digests()
        if changed := ", ".join(
            n for n, digest in digests.items() if self._pinned.get(n, digest) != digest
        ):
            return f"{changed} beside the task changed since it was opened; open the task again"
        if new := ", ".join(n for n in digests if n not in self._pinned):
            return (
                f"{new} beside the task was first loaded after the task had been opened, too late "
                "to belong to its identity; import or read it at module level, at the top of the "
                "task file"
            )
        return ""

    def _note_opening(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event != "open" or getattr(self._hashing, "on", False):
            return
        path, flags = arguments[0], arguments[2]
        if isinstance(path, (str, bytes, os.PathLike)) and not (
            isinstance(flags, int) and flags & os.O_WRONLY
        ):
            with contextlib.suppress(ValueError):  # no file has such a name
                self._note_file(os.fsdecode(path))

    def _note_file(self, path: str) -> None:
        name = self._name(path)
        if not name:
            return
        self._hashing.on = True
        try:
            about = os.stat(path)
            stamp = (
                about.st_dev,
                about.st_ino,
                about.st_size,
                about.st_mtime_ns,
                about.st_ctime_ns,
            )
            if stat.S_ISREG(about.st_mode) and self._files.get(name, ((),))[0] != stamp:
                self._files[name] = (stamp, _digest(path))
        except OSError:  # the task's own attempt to open it reports the error
            self._files.pop(name, None)
        finally:
            self._hashing.on = False

    def _name(self, path: str) -> str:
        """Return the path relative to the folder, "" for a file that does not count."""
        for place in (os.path.abspath(path), os.path.realpath(path)):
            if place.startswith(self._folder):
                name = place[len(self._folder) :]
                return "" if name in self._task_files or place.startswith(self._foreign) else name
        return ""


def _digest(path: str) -> str:
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while part := file.read(1 << 20):
            digest.update(part)
    return digest.hexdigest()


def _read_sources(folder: str, foreign: tuple[str, ...]) -> None:
    """Import modules below a folder from source: cached bytecode may be outdated by an edit within
    the same second."""
    original = SourceFileLoader.path_stats

    def path_stats(self: SourceFileLoader, path: str) -> Mapping[str, Any]:
        if path.startswith(folder) and not path.startswith(foreign):
            # a loader's way to report that there is no bytecode
            raise OSError("imported from its source")
        return original(self, path)

    SourceFileLoader.path_stats = path_stats  # type: ignore[method-assign]
