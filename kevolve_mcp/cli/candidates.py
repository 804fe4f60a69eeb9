"""A candidate before it is evaluated: `kevolve template` makes a first one, ready to be filled in,
and `kevolve compile` builds one only, also for hardware that is not here."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kevolve_mcp.errors import UsageError

from .failures import EXIT_FAILURE
from .options import Json, Language, Python, Server, Target, TaskPath, Token, parse_target
from .terminal import print_json, say


def template(
    task: TaskPath,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o", "--output", metavar="FILE", help="Write to this file instead of stdout."
        ),
    ] = None,
    target: Target = "cpu",
    language: Language = "",
    python: Python = "",
    server: Server = "",
    token: Token = "",
    json: Json = False,
) -> None:
    """Write a candidate in the right form for a task: constructor, names and shapes are
    filled in, the kernel's body is left to write."""
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


def compile(
    paths: Annotated[
        list[Path],
        typer.Argument(metavar="[TASK] CANDIDATE", help="The file to build, preceded by its task."),
    ],
    session: Annotated[
        str,
        typer.Option(
            "--session", metavar="SESSION", help="Build it for this session instead of a task."
        ),
    ] = "",
    target: Annotated[str, typer.Option("--target", help="Default: the session's, else cpu.")] = "",
    language: Annotated[
        str, typer.Option("--language", help="Default: the session's, else the target's usual one.")
    ] = "",
    python: Python = "",
    server: Server = "",
    token: Token = "",
    json: Json = False,
) -> None:
    """Build only: compiler diagnostics and static facts such as vector width and spills. Runs and
    proves nothing."""
    from .backend import choose, done
    from .files import find_task

    task, candidate = _task_and_candidate(paths, session)
    backend = choose(server, token)
    kernel = backend.text(candidate, "candidate")
    reference = backend.text(find_task(task), "task") if task else None
    arguments = {
        "path": kernel.path,
        "source": kernel.source,
        "task_path": reference.path if reference else "",
        "task_source": reference.source if reference else "",
        "session_id": session,
        "target": target,
        "language": language,
    }
    named = {name: value for name, value in arguments.items() if value}
    answer = done(backend, "kernel_compile", named, python=python)
    result = dict(answer.data.get("result") or {})
    evaluation = result.get("evaluation", {})
    if json:
        print_json({"candidate": str(candidate), **evaluation, "facts": result.get("facts", {})})
    else:
        say(answer.text)
    if evaluation.get("status") != "correct":
        raise typer.Exit(EXIT_FAILURE)


def _task_and_candidate(paths: list[Path], session: str) -> tuple[Path | None, Path]:
    """Raises UsageError unless there is one task, named or the session's, and one candidate."""
    if len(paths) == 1 and not session:
        raise UsageError(
            "a candidate is built for a task",
            "kevolve compile TASK CANDIDATE, or add --session SESSION.",
        )
    if len(paths) > 2 or (len(paths) == 2 and session):
        raise UsageError(
            f"{len(paths)} files were named{' beside --session' if session else ''}",
            "kevolve compile TASK CANDIDATE, or kevolve compile CANDIDATE --session SESSION.",
        )
    return (paths[0] if len(paths) == 2 else None), paths[-1]
