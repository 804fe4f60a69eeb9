"""Candidates before evaluation: `kevolve template` writes a file to fill in, `kevolve compile` only
builds a candidate, also for hardware that this machine does not have."""

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
        typer.Option("-o", "--output", metavar="FILE", help="Write to this file, not to stdout."),
    ] = None,
    target: Target = "cpu",
    language: Language = "",
    python: Python = "",
    server: Server = "",
    token: Token = "",
    json: Json = False,
) -> None:
    """Write a candidate file for a task, with constructor, names and shapes; the kernel's body is
    to be filled in."""
    import anyio

    from .backend import choose
    from .files import find_task

    language = language or parse_target(target).usual_language
    path = find_task(task)
    if output is not None and output.exists():
        raise UsageError(
            f"{output} already exists",
            "Name a file that does not exist yet; nothing is overwritten.",
        )

    text = anyio.run(choose(server, token).template, path, target, language, python)
    if output is not None:
        try:
            output.write_text(text, encoding="utf-8")
        except OSError as error:
            raise UsageError(
                f"{output} cannot be written: {error.strerror}",
                "Name a file in an existing folder.",
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
        typer.Argument(metavar="[TASK] CANDIDATE", help="The task, then the file to build for it."),
    ],
    session: Annotated[
        str,
        typer.Option("--session", metavar="SESSION", help="Take the task from this session."),
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
    """Build only: compiler diagnostics and static facts such as vector width and spills. Runs
    nothing and proves nothing."""
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
    """The task, None with a session, and the candidate. Raises UsageError for other numbers of
    files."""
    if len(paths) == 1 and not session:
        raise UsageError(
            "a candidate needs a task to be built for",
            "kevolve compile TASK CANDIDATE, or add --session SESSION.",
        )
    if len(paths) > 2 or (len(paths) == 2 and session):
        raise UsageError(
            f"{len(paths)} files were named{' beside --session' if session else ''}",
            "kevolve compile TASK CANDIDATE, or kevolve compile CANDIDATE --session SESSION.",
        )
    return (paths[0] if len(paths) == 2 else None), paths[-1]
