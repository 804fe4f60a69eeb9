"""How a failure ends a command: a message, a hint, an exit code; a trace only with --debug."""

from __future__ import annotations

import builtins
import json
import sys
from dataclasses import dataclass
from typing import Any

import typer
from typer.core import TyperGroup

from kevolve_mcp.errors import KEvolveError, UsageError

EXIT_FAILURE = 1  # the call was right, the outcome was not
EXIT_USAGE = 2  # the caller can mend it
EXIT_INTERRUPTED = 130  # 128 + SIGINT, as shells report it


@dataclass
class Invocation:
    """What the global options and --json of one call said; lives in the root context."""

    debug: bool = False
    json: bool = False


def leaf(error: BaseException) -> BaseException:
    """The one exception inside nested groups of one (task groups wrap whatever passes through them)."""
    while isinstance(error, builtins.BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


def as_dict(error: BaseException) -> dict[str, Any]:
    """The form in which `--json` prints a failure under the key "error"."""
    if isinstance(error, KEvolveError):
        return error.as_dict()
    hint = "This is a defect of KEvolve; run again with `kevolve --debug ...` for the trace."
    return {"code": "internal", "message": f"{type(error).__name__}: {error}", "hint": hint, "retryable": False}


def exit_code(error: BaseException) -> int:
    """2 for what the caller can mend, 1 for everything else."""
    return EXIT_USAGE if isinstance(error, UsageError) else EXIT_FAILURE


def report(error: BaseException, *, as_json: bool) -> None:
    """Print the failure: for a person on stderr, for a script as one JSON object on stdout."""
    said = as_dict(error)
    if as_json:
        typer.echo(json.dumps({"error": said}, ensure_ascii=False))
        return
    typer.echo(f"error: {said['message']}", err=True)
    if said["hint"]:
        typer.echo(f"hint: {said['hint']}", err=True)


class TeachingGroup(TyperGroup):
    """The root group: turns whatever a command raises into a message and an exit code."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except Exception as error:
            reason = leaf(error)
            if not _ours_to_tell(reason):
                raise reason from None
            invocation = ctx.find_root().obj
            if isinstance(invocation, Invocation) and invocation.debug:
                raise
            report(reason, as_json=isinstance(invocation, Invocation) and invocation.json)
            sys.stdout.flush()
            raise typer.Exit(exit_code(reason)) from error


def _ours_to_tell(error: BaseException) -> bool:
    """Typer's own exceptions (exit, abort, usage) and a closed pipe have their handling there."""
    return not isinstance(error, BrokenPipeError) and not type(error).__module__.startswith("typer.")
