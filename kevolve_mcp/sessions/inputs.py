"""Reading and checking what a caller gives as path or text; every refusal says what is accepted."""

from __future__ import annotations

import hashlib
import os
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from harness.types import MOST_EFFORT, Candidate, task_digest
from kevolve_mcp.actions import Action
from kevolve_mcp.errors import UsageError
from kevolve_mcp.source_files import in_folder, read_source

from .types import Text

What = Literal["task", "kernel", "start"]
_NOUNS: dict[What, str] = {"task": "task", "kernel": "kernel", "start": "starting kernel"}
_MODULES = (".py", ".pyc", ".so")


@dataclass(frozen=True)
class Loaded:
    """A source and the file it came from ("" for a text)."""

    source: str
    path: str = ""

    @property
    def folder(self) -> Path | None:
        return Path(self.path).parent if self.path else None


def load_task(text: Text) -> Loaded:
    """Load a task file, or the task.py of a task folder. Raises UsageError."""
    return _load(text, "task", "task.py")


def load_kernel(text: Text, what: Literal["kernel", "start"] = "kernel") -> Loaded:
    """Load a candidate file. what: its name in messages. Raises UsageError."""
    return _load(text, what, "start.py")


def digest(task: Loaded, neighbours: Iterable[str]) -> str:
    """Return the identity of a task from its current files and the given ones of its folder; ""
    where one of them cannot be read."""
    path = Path(task.path)
    held_out = path.with_name(f"{path.stem}.heldout.py") if task.path else None
    try:
        companion = held_out.read_text() if held_out is not None and held_out.is_file() else ""
        return task_digest(
            task.source,
            companion,
            {n: hashlib.sha256((path.parent / n).read_bytes()).hexdigest() for n in neighbours},
        )
    except (OSError, UnicodeDecodeError):
        return ""


def beside(task: Loaded) -> list[str]:
    """Return the names of modules and packages in the task's folder: a new one can shadow an
    import."""
    if task.folder is None:
        return []
    try:
        with os.scandir(task.folder) as entries:
            names = [
                e.name
                for e in entries
                if e.name.endswith(_MODULES) or os.path.isfile(os.path.join(e.path, "__init__.py"))
            ]
    except OSError:
        return []
    return sorted(names)


def companion_start(task: str, language: str) -> str:
    """Return the starting kernel beside a task file (task.py, task_NAME.py) for a language:
    start_LANGUAGE.py, else start.py; "" without one."""
    path = Path(task)
    if not path.stem.startswith("task"):
        return ""
    return next((str(start) for start in starts_beside(path, (language,)) if start.is_file()), "")


def starts_beside(task: Path, languages: Iterable[str]) -> list[Path]:
    """Return the paths where starting kernels may be."""
    return [
        task.with_name(name)
        for name in (*(f"start_{language}.py" for language in languages), "start.py")
    ]


def check_effort(effort: float) -> None:
    """Check an effort. Raises UsageError if it is out of range."""
    if not 1 <= effort <= MOST_EFFORT:
        raise UsageError(
            f"effort {effort:g} is not accepted",
            f"Give 1 to {MOST_EFFORT:g}, a multiple of the usual measuring time.",
        )


def candidate(loaded: Loaded, language: str) -> Candidate:
    """Return a candidate. Raises UsageError for an empty text."""
    if not loaded.source.strip():
        raise UsageError(
            "the kernel's text is empty", "Give one Python file with class ModelNew(nn.Module)."
        )
    return Candidate(loaded.source, language)


def _load(text: Text, what: What, inside: str) -> Loaded:
    noun, give = _NOUNS[what], Action("give", setting=what)
    if text.source and text.path:
        raise UsageError(
            f"a path and a text of the {noun} were both given", "Give one of them.", give
        )
    if text.source:
        if "\n" not in text.source and text.source.strip().endswith(".py"):
            raise UsageError(f"the text of the {noun} is a file name", "Pass it as the path.", give)
        return Loaded(text.source)
    if not text.path:
        raise UsageError(f"no {noun} was given", "Give its absolute path, or its text.", give)
    if "\0" in text.path:
        raise UsageError(
            f"the path of the {noun} contains a NUL character", "No file has such a name."
        )
    path = Path(text.path)
    if not path.is_absolute():
        raise UsageError(
            f"the path {text.path!r} of the {noun} is not absolute",
            f"Give the absolute path on {socket.gethostname()}, where this server runs, or the "
            "text.",
            give,
        )
    path = in_folder(path, inside)
    elsewhere = (
        f"Paths are those of {socket.gethostname()}, where this server runs; otherwise pass the "
        "text."
    )
    return Loaded(read_source(path, noun, elsewhere, give), str(path))
