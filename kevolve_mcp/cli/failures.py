"""How a command ends: its exit code, and for a failure a message and a hint; a traceback only with
--debug."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from kevolve_mcp.errors import KEvolveError, UsageError, innermost, io_message, shortened
from kevolve_mcp.visible import visible

from .calls import advice
from .terminal import settle


class ListingGroup(TyperGroup):
    """A group that lists each command with the first paragraph of its docstring, re-wrapped: rich
    would keep the line breaks."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        for command in self.commands.values():
            if command.help and not command.short_help:
                command.short_help = " ".join(command.help.split("\n\n")[0].split())
        super().format_help(ctx, formatter)


EXIT_FAILURE = 1  # the call was valid, but it failed
EXIT_USAGE = 2  # the caller can fix it
EXIT_INTERRUPTED = 130  # 128 + SIGINT, as shells report it


@dataclass
class Invocation:
    """The global options of one call; kept in the root context."""

    debug: bool = False


def as_dict(error: BaseException) -> dict[str, Any]:
    """Return a failure as `--json` prints it under the key "error"."""
    failure = _as_dict(error)
    return {**failure, "message": shortened(failure["message"]), "hint": shortened(failure["hint"])}


def _as_dict(error: BaseException) -> dict[str, Any]:
    if isinstance(error, KEvolveError):
        return {
            "code": error.code,
            "message": error.message,
            "hint": advice(error),
            "retryable": error.retryable,
        }
    if isinstance(error, typer.TyperException):
        said = error.format_message().rstrip(".")
        context = getattr(error, "ctx", None)
        command = context.command_path if context is not None else "kevolve"
        return _error(
            "usage", said[:1].lower() + said[1:], f"`{command} --help` shows what it accepts."
        )
    if isinstance(error, OSError):
        what = "" if error.filename else "the answer could not be written: "
        return _error(
            "io",
            f"{what}{io_message(error)}",
            "Fix that, then run it again; measured results are kept.",
        )
    hint = "This is a bug in KEvolve; run again with `kevolve --debug ...` for the traceback."
    return _error("internal", f"{type(error).__name__}: {error}", hint)


def _error(code: str, message: str, hint: str) -> dict[str, Any]:
    return {"code": code, "message": message, "hint": hint, "retryable": False}


def exit_code(error: BaseException) -> int:
    """Return 2 for what the caller can fix, 1 for everything else."""
    return EXIT_USAGE if isinstance(error, UsageError | typer.TyperException) else EXIT_FAILURE


def report(error: BaseException, *, as_json: bool) -> None:
    """Print the failure: for a person on stderr, for a script as one JSON object on stdout, if that
    is still open."""
    said = as_dict(error)
    if as_json and said["code"] != "io":
        typer.echo(json.dumps({"error": said}))
        return
    typer.echo(visible(f"error: {said['message']}"), err=True)
    if said["hint"]:
        typer.echo(visible(f"hint: {said['hint']}"), err=True)


class Teaching:
    """A mix-in that turns whatever a command raises, and an empty command line, into a message and
    an exit code. It precedes the base class whose `main` it wraps."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        """Run the program and end the process, as the base class does."""
        settle()
        arguments = list(sys.argv[1:] if args is None else args)
        options = arguments[: arguments.index("--")] if "--" in arguments else arguments
        run = super().main  # type: ignore[misc]
        try:
            code = run(arguments, prog_name, complete_var, False, windows_expand_args, **extra)
            sys.stdout.flush()
        except Exception as error:
            reason = innermost(error)
            if "--debug" in options and not isinstance(
                reason, BrokenPipeError | typer.TyperException
            ):
                raise
            code = _ended_by(reason, as_json="--json" in options)
        sys.exit(code or 0)


class TeachingGroup(Teaching, ListingGroup):
    """A program with several commands."""


class TeachingCommand(Teaching, TyperCommand):
    """A program with one command."""


def _ended_by(reason: BaseException, *, as_json: bool) -> int:
    """Print the reason, unless the output is closed, and return the exit code."""
    # a group called without a command has already shown its help
    if not isinstance(reason, BrokenPipeError) and str(reason):
        report(reason, as_json=as_json)
    if isinstance(reason, OSError) and not reason.filename:
        _give_up_stdout()
    else:
        sys.stdout.flush()
    return exit_code(reason)


def _give_up_stdout() -> None:
    """Discard buffered output, which the interpreter would fail to flush again at exit."""
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), sys.stdout.fileno())
