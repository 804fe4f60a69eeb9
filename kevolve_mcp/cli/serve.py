"""`kevolve serve`: the MCP server over stdio or HTTP, the same as `kevolve-mcp`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def serve(
    http: Annotated[
        bool, typer.Option("--http", help="Serve streamable HTTP instead of stdio.")
    ] = False,
    host: Annotated[
        str | None, typer.Option("--host", help="The address to listen on [default: 127.0.0.1].")
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(
            "--port", min=0, max=65535, help="The port; 0 takes a free one [default: 8765]."
        ),
    ] = None,
    token: Annotated[
        str | None,
        typer.Option(
            "--token",
            help=(
                "The bearer token; KEVOLVE_TOKEN is not seen by other users. Default: one kept in "
                "the home."
            ),
        ),
    ] = None,
    root: Annotated[
        list[Path] | None,
        typer.Option(
            "--root",
            metavar="DIR",
            help="Callers' paths name Python files below it [default: here]; repeatable.",
        ),
    ] = None,
    allow_remote: Annotated[
        bool,
        typer.Option(
            "--allow-remote",
            help="Listen on an address that others reach; wants a token that you set.",
        ),
    ] = False,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(
            "--allow-host",
            metavar="NAME",
            help="A further name by which clients reach this machine; repeatable.",
        ),
    ] = None,
    allow_python: Annotated[
        bool, typer.Option("--allow-python", help="Callers may choose the interpreter.")
    ] = False,
    tasks_from_root: Annotated[
        bool,
        typer.Option(
            "--tasks-from-root",
            help="Callers may not send the text of a task, only name one below a root.",
        ),
    ] = False,
) -> None:
    """Serve MCP over stdin and stdout, for a client to start; with --http, over HTTP. The same
    program as kevolve-mcp."""
    from kevolve_mcp.server.main import main

    flags = {
        "--http": http,
        "--allow-remote": allow_remote,
        "--allow-python": allow_python,
        "--tasks-from-root": tasks_from_root,
    }
    values = {"--host": host, "--port": port, "--token": token}
    lists: dict[str, list[Path] | list[str] | None] = {"--root": root, "--allow-host": allow_host}
    arguments = [name for name, given in flags.items() if given]
    arguments += [f"{name}={value}" for name, value in values.items() if value is not None]
    arguments += [f"{name}={value}" for name, several in lists.items() for value in several or ()]
    if code := main(arguments):
        raise typer.Exit(code)
