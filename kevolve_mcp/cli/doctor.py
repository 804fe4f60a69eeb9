"""`kevolve doctor`: what works here, what does not, why, and how to fix it."""

from __future__ import annotations

import typer

from .failures import EXIT_FAILURE
from .options import Json, Python, Server, Token
from .terminal import print_json, show


def doctor(python: Python = "", server: Server = "", token: Token = "", json: Json = False) -> None:
    """Report what this machine, or that of a server, can do and what it lacks. Exit code 0 if
    kernels can be evaluated there."""
    import anyio

    from .backend import choose

    diagnosis = anyio.run(choose(server, token).diagnose, python)
    if json:
        print_json(diagnosis.as_json())
    else:
        from .render.machine import machine_view

        show(machine_view(diagnosis))
    if not diagnosis.ready:
        raise typer.Exit(EXIT_FAILURE)
