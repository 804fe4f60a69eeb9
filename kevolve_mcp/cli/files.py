"""Reading what the user named: task files and folders, candidates."""

from __future__ import annotations

from pathlib import Path

from kevolve_mcp.errors import UsageError


def find_task(path: Path) -> Path:
    """The absolute path of a task file: a file itself, or the task.py of a folder. Raises
    UsageError."""
    path = path.expanduser().absolute()
    if path.is_dir():
        task = path / "task.py"
        if not task.is_file():
            raise UsageError(
                f"the folder {path} holds no task.py",
                "Name the task file itself, or put the reference (class Model, get_inputs) into "
                "task.py.",
            )
        return task
    if not path.exists():
        raise UsageError(
            f"no such task: {path}",
            "TASK is a Python file in KernelBench's format or a folder with task.py.",
        )
    return path


def read_text(path: Path, what: str) -> str:
    """The file's text. Raises UsageError naming the reason in words."""
    path = path.expanduser()
    if path.is_dir():
        raise UsageError(f"{what} {path} is a folder", f"Name the {what} file itself.")
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise UsageError(
            f"no such {what}: {path}", "Check the path; it is taken relative to the current folder."
        ) from None
    except UnicodeDecodeError as error:
        raise UsageError(
            f"{what} {path} is not UTF-8 text (byte {error.start})", "Save it as UTF-8."
        ) from None
    except OSError as error:
        raise UsageError(
            f"{what} {path} cannot be read: {error.strerror}", "Check the file's permissions."
        ) from None
