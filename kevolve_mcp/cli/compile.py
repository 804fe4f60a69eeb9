"""`kevolve compile`: build a candidate only, also for hardware that is not here."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kevolve_mcp.errors import UsageError

from .failures import EXIT_FAILURE
from .options import Json, Python, Server, Token
from .terminal import print_json


def compile(
    candidate: Annotated[Path, typer.Argument(metavar="CANDIDATE", help="The file to build.")],
    task: Annotated[Path | None, typer.Option("--task", metavar="TASK", help="The task it is for.")] = None,
    session: Annotated[str, typer.Option("--session", metavar="SESSION", help="Or the session it is for.")] = "",
    target: Annotated[str, typer.Option("--target", help="Default: the session's, else cpu.")] = "",
    language: Annotated[str, typer.Option("--language", help="Default: the session's, else the target's usual one.")] = "",
    python: Python = "",
    server: Server = "",
    token: Token = "",
    json: Json = False,
) -> None:
    """Build only: compiler diagnostics and static facts such as vector width and spills. Runs and proves nothing."""
    from .connect import work
    from .files import find_task, read_text
    from .looking import for_people
    from .lookup import place

    text = read_text(candidate, "candidate")
    if task is None and not session:
        raise UsageError("a candidate is built for a task", "Add --task TASK, or --session SESSION.")
    remote = place(server, token)
    if remote is not None and python:
        raise UsageError("--python is for this machine", "A running server has its own: whoever starts it sets KEVOLVE_PYTHON.")
    found = find_task(task) if task else None
    if remote is None:
        files = {"path": str(candidate.expanduser().absolute()), "task_path": str(found or "")}
    else:
        files = {"source": text, "task_source": read_text(found, "task") if found else ""}
    arguments = {
        **files,
        "session_id": session,
        "target": target,
        "language": language,
    }
    answer = work("kernel_compile", {name: value for name, value in arguments.items() if value}, remote, python=python)
    result = dict(answer.data.get("result") or {})
    evaluation = result.get("evaluation", {})
    if json:
        print_json({"candidate": str(candidate), **evaluation, "facts": result.get("facts", {})})
    else:
        typer.echo(for_people(answer.text))
    if evaluation.get("status") != "correct":
        raise typer.Exit(EXIT_FAILURE)
