"""Finding and reading the Python files that a caller named."""

from __future__ import annotations

import difflib
import os
from pathlib import Path

from .actions import Action
from .errors import UsageError

MAX_BYTES = 2_000_000


def in_folder(path: Path, inside: str) -> Path:
    """Return the path, or for a folder the file `inside` it. Raises UsageError where the folder has
    no such file."""
    if not os.path.isdir(path):  # False where Path.is_dir raises: a name that is too long
        return path
    if not (path / inside).is_file():
        raise UsageError(
            f"the folder {path} holds no {inside}",
            f"Name a file in it: {_names(path) or 'it holds no Python file'}.",
        )
    return path / inside


def read_source(path: Path, noun: str, elsewhere: str, *actions: Action) -> str:
    """Return a file's text.

    Args:
        path: The file.
        noun: What it is, for messages, e.g. "candidate".
        elsewhere: The hint if it does not exist.
        actions: What to do next if it does not exist or cannot be read.

    Raises:
        UsageError: It cannot be read, with the reason.
    """
    try:
        if path.stat().st_size > MAX_BYTES:
            raise UsageError(
                f"{noun} {path} is larger than {MAX_BYTES:,} bytes",
                "A task or candidate is one Python source file.",
            )
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise UsageError(f"no such {noun}: {path} ({_near(path)})", elsewhere, *actions) from None
    except IsADirectoryError:
        raise UsageError(f"{noun} {path} is a folder", f"Name the {noun} file itself.") from None
    except UnicodeDecodeError as error:
        raise UsageError(
            f"{noun} {path} is not UTF-8 text (byte {error.start})", "Save it as UTF-8."
        ) from None
    except OSError as error:
        raise UsageError(
            f"{noun} {path} cannot be read: {error.strerror}", "Fix its permissions.", *actions
        ) from None


def _near(path: Path) -> str:
    if not path.parent.is_dir():
        return f"the folder {path.parent} does not exist either"
    names = _names(path.parent).split(", ")
    near = difflib.get_close_matches(path.name, names, 3, 0.4)
    return f"near: {', '.join(near)}" if near else f"the folder {path.parent} exists"


def _names(folder: Path) -> str:
    return ", ".join(sorted(p.name for p in folder.glob("*.py"))[:50])
