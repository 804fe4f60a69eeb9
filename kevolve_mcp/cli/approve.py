"""`kevolve approve`: a person lets a node pass."""

from __future__ import annotations

import dataclasses
from typing import Annotated

import typer

from .options import Json, NodeId, SessionId
from .person import at_home, name_of
from .terminal import print_json, say


def approve(
    session: SessionId,
    node: NodeId,
    by: Annotated[
        str, typer.Option("--by", help="Who looked at it. Default: the user's login name.")
    ] = "",
    note: Annotated[
        str, typer.Option("--note", help="Why it may pass; kept with the approval.")
    ] = "",
    json: Json = False,
) -> None:
    """Let a node pass that you have looked at: one that needs a review counts again, and a session
    with review may export it."""
    approval = at_home(
        "an approval is given", lambda service: service.approve(session, node, name_of(by), note)
    )
    found = dataclasses.asdict(approval)
    if json:
        print_json(found)
    else:
        say(
            f"{node} of {session} is approved by {name_of(by)}. `kevolve export {session} {node}` "
            "confirms and exports it."
        )
