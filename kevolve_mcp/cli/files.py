"""Reading what the user named: task files and folders, candidates."""

from __future__ import annotations

from pathlib import Path

from kevolve_mcp.source_files import in_folder, read_source


def find_task(path: Path) -> Path:
    """Return the absolute path of a task file: a file itself, or the task.py of a folder. Raises
    UsageError."""
    return in_folder(path.expanduser().absolute(), "task.py")


def read_text(path: Path, what: str) -> str:
    """Return the file's text. Raises UsageError naming the reason in words."""
    elsewhere = "Check the path; it is taken relative to the current folder."
    return read_source(path.expanduser(), what, elsewhere)


def stays_here(task: Path) -> str:
    """Return what a reader should know of a task whose text alone is sent; "" for nothing."""
    companion = task.with_name(f"{task.stem}.heldout.py")
    if not companion.exists():
        return ""
    return f"{companion} is not sent: held-out cases come from the task's own text"
