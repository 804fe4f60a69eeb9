"""`kevolve export`: re-validate a session's winner, or a chosen node, and write the package."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .failures import EXIT_FAILURE
from .options import Json, Server, SessionId, Token
from .terminal import announcer, print_json, show

if TYPE_CHECKING:
    from kevolve_mcp import api


def export(
    session: SessionId,
    node: Annotated[
        str, typer.Argument(metavar="[NODE]", help="The node to export. Default: the best one.")
    ] = "",
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="DIR", help="Also copy the package to this folder."),
    ] = None,
    server: Server = "",
    token: Token = "",
    json: Json = False,
) -> None:
    """Finish a session: confirm the winner in fresh processes, export it, time the package as a
    user calls it."""
    import anyio

    from kevolve_mcp.driver import RunOutcome, SessionClient

    from . import running
    from .backend import choose
    from .render.report import report_json, report_view

    running.check_destination(output)
    announce = announcer(quiet=json)
    backend = choose(server, token)

    async def run() -> api.Finished:
        async with backend.tools() as tools:
            client = SessionClient(tools, lambda working: announce(working.message), 20)
            wanted = output is not None and not backend.shares_files
            return await client.finish(session, node, contents=wanted)

    ending = anyio.run(run)
    outcome = RunOutcome(ending.session, ending.reason, 0, ending)
    copied = running.copy_package(outcome, output) if output else ""
    if json:
        print_json(report_json(outcome, copied))
    else:
        show(report_view(outcome, copied, running.handed_over(outcome)))
    if not ending.package:
        raise typer.Exit(EXIT_FAILURE)
