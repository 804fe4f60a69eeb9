"""Reading what the user named: task files and folders, candidates."""

from __future__ import annotations

from pathlib import Path

from kevolve_mcp.source_files import in_folder, read_source


def find_task(path: Path) -> Path:
    """Return the absolute path of a task file: a file itself, or the task.py of a folder. Raises
    UsageError."""
    return in_folder(path.expanduser().absolute(), "task.py")


def read_text(path: Path, what: str) -> str:
    """Return the file's text. Raises UsageError naming the reason."""
    elsewhere = "Check the path; it is relative to the current folder."
    return read_source(path.expanduser(), what, elsewhere)


def stays_here(task: Path) -> str:
    """Return a warning about what is not sent with a task's text, "" for none."""
    companion = task.with_name(f"{task.stem}.heldout.py")
    if not companion.exists():
        return ""
    return f"{companion} is not sent: held-out cases are then taken from the task's own text"
