"""What a caller hands over as path or text, read and checked; every refusal says what would be
accepted."""

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
    """source and the file it came from ("" for a text)."""

    source: str
    path: str = ""

    @property
    def folder(self) -> Path | None:
        return Path(self.path).parent if self.path else None


def load_task(text: Text) -> Loaded:
    """A task file, or the task.py of a task folder. Raises UsageError."""
    return _load(text, "task", "task.py")


def load_kernel(text: Text, what: Literal["kernel", "start"] = "kernel") -> Loaded:
    """A candidate file. what: it is to messages. Raises UsageError."""
    return _load(text, what, "start.py")


def digest(task: Loaded, neighbours: Iterable[str]) -> str:
    """The identity that a task has as its files are now, if it loads these of its folder; "" where
    one of them cannot be read."""
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
    """Names of the modules and packages in the task's folder: one more can come before what was
    imported."""
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
    """The kernel beside a task file (task.py, task_NAME.py) to start from in a language:
    start_LANGUAGE.py, else start.py; "" without."""
    path = Path(task)
    if not path.stem.startswith("task"):
        return ""
    return next((str(start) for start in starts_beside(path, (language,)) if start.is_file()), "")


def starts_beside(task: Path, languages: Iterable[str]) -> list[Path]:
    """Where kernels to start from may lie."""
    return [
        task.with_name(name)
        for name in (*(f"start_{language}.py" for language in languages), "start.py")
    ]


def check_effort(effort: float) -> None:
    """Raises UsageError outside of what is accepted."""
    if not 1 <= effort <= MOST_EFFORT:
        raise UsageError(
            f"effort {effort:g} is not accepted",
            f"Give 1 to {MOST_EFFORT:g}: times the usual measuring.",
        )


def candidate(loaded: Loaded, language: str) -> Candidate:
    """Raises UsageError for a text without content."""
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
            raise UsageError(
                f"the text of the {noun} is a file's name", "Pass that as its path.", give
            )
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
