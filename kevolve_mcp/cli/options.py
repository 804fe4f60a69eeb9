"""Options that several commands share, each with one help text."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kevolve_mcp import __version__
from kevolve_mcp.errors import UsageError

if TYPE_CHECKING:
    from harness.types import Target as ParsedTarget


def _print_version(ctx: typer.Context, value: bool) -> None:
    if value:
        typer.echo(f"{ctx.find_root().info_name} {__version__}")
        raise typer.Exit


Version = Annotated[
    bool,
    typer.Option(
        "--version", help="Print the version and exit.", callback=_print_version, is_eager=True
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print only JSON on stdout.")]
Target = Annotated[
    str, typer.Option("--target", help="Where the kernel runs: cpu, cuda, cuda:sm_90, hip:gfx942 …")
]
Language = Annotated[
    str,
    typer.Option("--language", help="The language of candidates. Default: the target's usual one."),
]
MemoryLimit = Annotated[
    float | None,
    typer.Option(
        "--memory-gib",
        min=0.001,
        max=1e6,
        help="The most host and the most device memory that a kernel may use while it is timed.",
    ),
]
Python = Annotated[
    str,
    typer.Option(
        "--python",
        help=(
            "The interpreter that evaluates (with torch). Default: searched for; see `kevolve "
            "doctor`."
        ),
    ),
]
Server = Annotated[
    str,
    typer.Option(
        "--server",
        metavar="URL",
        help="Use this running server (`kevolve serve --http`). Default: KEVOLVE_SERVER, or none.",
    ),
]
Token = Annotated[
    str,
    typer.Option(
        "--token",
        help=(
            "The server's bearer token. Default: KEVOLVE_TOKEN, or the one in the home for a "
            "server on this machine."
        ),
    ),
]
TaskPath = Annotated[
    Path,
    typer.Argument(
        metavar="TASK", help="A task file in KernelBench's format, or a folder that holds task.py."
    ),
]
SessionId = Annotated[
    str,
    typer.Argument(
        metavar="SESSION", help="A session's id, e.g. rmsnorm-7f3a; see `kevolve sessions`."
    ),
]
NodeId = Annotated[
    str, typer.Argument(metavar="NODE", help="A node's id, e.g. n17; see `kevolve tree SESSION`.")
]


def parse_target(text: str) -> ParsedTarget:
    """Return the target that `--target` names. Raises UsageError naming what is accepted."""
    from harness.types import Target as ParsedTarget

    try:
        return ParsedTarget.parse(text)
    except ValueError as error:
        raise UsageError(
            str(error), "`kevolve doctor` lists the targets of this machine."
        ) from None
