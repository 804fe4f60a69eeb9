"""`kevolve serve`, which is also the program `kevolve-mcp`: the MCP server over stdio or HTTP."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kevolve_mcp.errors import UsageError

from .failures import EXIT_INTERRUPTED, TeachingCommand
from .options import Python, Version

# how a client starts the server; -P keeps a user's `harness/` in the current folder from being
# imported
SERVER: tuple[str, ...] = ("-P", "-m", "kevolve_mcp.cli.serve")


def serve(
    ctx: typer.Context,
    http: Annotated[
        bool, typer.Option("--http", help="Serve streamable HTTP instead of stdio.")
    ] = False,
    host: Annotated[
        str,
        typer.Option(
            "--host", show_default=False, help="The address to listen on (default: 127.0.0.1)."
        ),
    ] = "127.0.0.1",
    port: Annotated[
        int,
        typer.Option(
            "--port",
            min=0,
            max=65535,
            show_default=False,
            help="The port; 0 chooses a free one (default: 8765).",
        ),
    ] = 8765,
    token: Annotated[
        str | None,
        typer.Option(
            "--token",
            help=(
                "The bearer token; KEVOLVE_TOKEN hides it from other users. Default: one kept in "
                "the home."
            ),
        ),
    ] = None,
    root: Annotated[
        list[Path] | None,
        typer.Option(
            "--root",
            metavar="DIR",
            help=(
                "Folder whose Python files callers may name (default: the current one); repeatable."
            ),
        ),
    ] = None,
    allow_remote: Annotated[
        bool,
        typer.Option(
            "--allow-remote",
            help="Listen on an address that others can reach; needs a token that you set.",
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
            help="Callers may only name tasks below a root, not send the text of one.",
        ),
    ] = False,
    home: Annotated[
        Path | None,
        typer.Option(
            "--home",
            metavar="DIR",
            help="The folder of database, artifacts and exports. Default: KEVOLVE_HOME.",
        ),
    ] = None,
    python: Python = "",
    version: Version = False,
) -> None:
    """Serve MCP over stdin and stdout for the client that starts it; with --http, over HTTP. The
    same program as kevolve-mcp."""
    from kevolve_mcp.server.serving import serve as run
    from kevolve_mcp.settings import Settings

    _check(ctx, http=http)
    options = {"home": home, "python": python}
    settings = Settings(**{name: value for name, value in options.items() if value})
    try:
        if not http:
            return run(settings)
        from kevolve_mcp.server.http import HttpOptions

        return run(
            settings,
            HttpOptions(
                host=host,
                port=port,
                token=token,
                roots=tuple(root or ()),
                allow_remote=allow_remote,
                allow_hosts=tuple(allow_host or ()),
                allow_python=allow_python,
                tasks_from_root=tasks_from_root,
            ),
        )
    except KeyboardInterrupt:
        raise typer.Exit(EXIT_INTERRUPTED) from None


def _check(ctx: typer.Context, *, http: bool) -> None:
    """Refuse options of HTTP, which have no meaning over stdio. Raises UsageError."""
    anywhere = ("http", "home", "python", "version")
    sources = {name: ctx.get_parameter_source(name) for name in ctx.params if name not in anywhere}
    stray = [
        f"--{name.replace('_', '-')}"
        for name, source in sources.items()
        if source is not None and source.name == "COMMANDLINE"
    ]
    if stray and not http:
        raise UsageError(
            f"{', '.join(stray)} has no meaning over stdio", "Add --http, or leave it out."
        )


app = typer.Typer(
    pretty_exceptions_enable=False, context_settings={"help_option_names": ["-h", "--help"]}
)
app.command("kevolve-mcp", cls=TeachingCommand)(serve)


def main() -> None:
    """Run the console script `kevolve-mcp`."""
    app(prog_name="kevolve-mcp")


if __name__ == "__main__":
    main()
