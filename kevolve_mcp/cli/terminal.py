"""The two streams: how they are set up, the rich consoles on them, and JSON. Anything else is
printed through typer.echo."""

from __future__ import annotations

import codecs
import io
import json
import os
import re
import shutil
import sys
import textwrap
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import typer

from kevolve_mcp.visible import visible

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

_MARK = re.compile(r"\s*([-*+] )?")  # what precedes a line's text: indentation, a list mark
PLAIN_WIDTH = 160  # tables in a pipe or a log file must not be folded at 80 columns
# replacements for a stream that lacks these characters; units must stay readable
PLAIN = {
    "×": "x",
    "µ": "u",
    "–": "-",
    "…": "...",
    "→": "->",
    "✓": "+",
    "✗": "x",
    "π": "pi",
    "τ": "tau",
}


def settle() -> None:
    """Let both streams accept every text, whatever their encoding: characters that it lacks are
    written in ASCII, or as a question mark."""
    codecs.register_error("kevolve.plain", _plainly)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="kevolve.plain")


def _plainly(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(PLAIN.get(c, "?") for c in error.object[error.start : error.end]), error.end


def print_json(data: Any) -> None:
    """Print an answer as JSON, in ASCII where stdout does not support all of Unicode."""
    unicode = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
    typer.echo(json.dumps(data, ensure_ascii=not unicode, indent=2))


def say(text: str) -> None:
    """Print prose, on a terminal wrapped at words, with list items indented. Print text that is to
    be copied or piped (sources, logs, pages) without this function."""
    if sys.stdout.isatty():
        width = shutil.get_terminal_size().columns
        text = "\n".join(wrapped for line in text.split("\n") for wrapped in _wrapped(line, width))
    typer.echo(text)


def _wrapped(line: str, width: int) -> list[str]:
    if len(line) <= width:
        return [line]
    mark = _MARK.match(line)
    hanging = " " * len(mark.group()) if mark else ""
    return textwrap.wrap(
        line,
        width,
        subsequent_indent=hanging,
        break_long_words=False,
        break_on_hyphens=False,
        drop_whitespace=True,
    )


def out() -> Console:
    """Return the console for answers: stdout."""
    return _console(stderr=False)


def err() -> Console:
    """Return the console for progress and remarks: stderr."""
    return _console(stderr=True)


def show(renderable: RenderableType) -> None:
    """Print an answer; outside a terminal without trailing spaces."""
    console = out()
    if console.is_terminal:
        console.print(renderable)
        return
    with console.capture() as captured:
        console.print(renderable)
    sys.stdout.write("\n".join(line.rstrip() for line in captured.get().splitlines()) + "\n")


def is_live() -> bool:
    """Return whether stderr is a terminal that can redraw."""
    return sys.stderr.isatty() and os.environ.get("TERM", "") not in ("", "dumb")


def announcer(*, quiet: bool) -> Callable[[str], None]:
    """Return what prints progress on stderr, nothing if quiet."""
    if quiet or not is_live():
        return lambda line: None
    console = err()
    return lambda line: console.print(visible(line), style="dim", markup=False)


def _console(*, stderr: bool) -> Console:
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() else PLAIN_WIDTH
    return Console(stderr=stderr, width=width, soft_wrap=False, highlight=False, emoji=False)
