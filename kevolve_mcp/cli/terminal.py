"""The two rich consoles. Anything else is printed through typer.echo."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

PLAIN_WIDTH = 160  # tables in a pipe or a log file must not be folded at 80 columns


def out() -> Console:
    """Answers: stdout."""
    return _console(stderr=False)


def err() -> Console:
    """Progress and remarks: stderr."""
    return _console(stderr=True)


def is_live() -> bool:
    """Whether a display that redraws itself makes sense: stderr is a terminal that can."""
    return sys.stderr.isatty() and os.environ.get("TERM", "") not in ("", "dumb")


def _console(*, stderr: bool) -> Console:
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() else PLAIN_WIDTH
    return Console(stderr=stderr, width=width, soft_wrap=False, highlight=False, emoji=False)
