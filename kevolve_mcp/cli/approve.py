"""`kevolve approve`: what only a person says, on the machine where the home is. No tool of the server does it."""

from __future__ import annotations

import dataclasses
import getpass
import json as jsonlib
from typing import Annotated

import typer

from kevolve_mcp.errors import UsageError

from .options import Json, NodeId, SessionId


def approve(
    session: SessionId,
    node: NodeId,
    by: Annotated[str, typer.Option("--by", help="Who looked at it. Default: the user's login name.")] = "",
    note: Annotated[str, typer.Option("--note", help="Why it may pass; kept with the approval.")] = "",
    json: Json = False,
) -> None:
    """Let a node pass that you have looked at: a flagged one counts again, and a session with review may export it."""
    import anyio

    from kevolve_mcp.sessions import Service
    from kevolve_mcp.settings import Settings

    if Settings().server:
        raise UsageError(
            "an approval is given on the machine where the server's home is, not through the server.",
            "Run it there, without KEVOLVE_SERVER.",
        )
    try:
        author = by or getpass.getuser()
    except (KeyError, OSError):  # no entry for this user, as in some containers
        raise UsageError("this user has no name on this machine.", "Say who approves: --by NAME.") from None

    async def run() -> dict[str, object]:
        async with Service(looks_only=True) as service:
            return dataclasses.asdict(await service.approve(session, node, author, note))

    found = anyio.run(run)
    if json:
        typer.echo(jsonlib.dumps(found, ensure_ascii=False, indent=2))
    else:
        typer.echo(f"{node} of {session} is approved by {author}. `kevolve export {session} {node}` confirms and exports it.")
