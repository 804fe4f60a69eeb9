"""`kevolve template`: a first candidate for a task, ready to be filled in."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kevolve_mcp.errors import UsageError

from .options import Json, Language, Python, Server, Target, TaskPath, Token, parse_target
from .terminal import print_json


def template(
    task: TaskPath,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="FILE", help="Write it there instead of to stdout."),
    ] = None,
    target: Target = "cpu",
    language: Language = "",
    python: Python = "",
    server: Server = "",
    token: Token = "",
    json: Json = False,
) -> None:
    """Write a candidate in the right form for a task: its constructor, names and shapes; the
    kernel's body is left to fill in."""
    import anyio

    from .backend import choose
    from .files import find_task

    language = language or parse_target(target).usual_language
    path = find_task(task)
    if output is not None and output.exists():
        raise UsageError(
            f"{output} exists already",
            "Name a file that does not exist yet; nothing is overwritten.",
        )

    text = anyio.run(choose(server, token).template, path, target, language, python)
    if output is not None:
        try:
            output.write_text(text, encoding="utf-8")
        except OSError as error:
            raise UsageError(
                f"{output} cannot be written: {error.strerror}",
                "Name a file in a folder that exists.",
            ) from None
        typer.echo(
            f"{output} written; fill it in, then: kevolve evaluate {task} {output}", err=True
        )
    if json:
        print_json({"language": language, "source": text, "path": str(output or "")})
    elif output is None:
        typer.echo(text)
