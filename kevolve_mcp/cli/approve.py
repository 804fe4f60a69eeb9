"""`kevolve approve`: a person approves a node. Also how decisions that only a person makes reach
this machine's home; no tool of the server makes them."""

from __future__ import annotations

import dataclasses
import getpass
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from kevolve_mcp.errors import UsageError

from .options import Json, NodeId, SessionId
from .terminal import print_json, say

if TYPE_CHECKING:
    from kevolve_mcp.sessions import Service


def approve(
    session: SessionId,
    node: NodeId,
    by: Annotated[
        str, typer.Option("--by", help="Who reviewed it. Default: the user's login name.")
    ] = "",
    note: Annotated[str, typer.Option("--note", help="The reason; kept with the approval.")] = "",
    json: Json = False,
) -> None:
    """Approve a node that you have reviewed. A node that needs a review then counts again, and a
    session with review may export it."""
    approval = at_home(
        "an approval is given", lambda service: service.approve(session, node, name_of(by), note)
    )
    fields = dataclasses.asdict(approval)
    if json:
        print_json(fields)
    else:
        say(
            f"{node} of {session} is approved by {name_of(by)}. `kevolve export {session} {node}` "
            "confirms and exports it."
        )


T = TypeVar("T")


def at_home(what: str, work: Callable[[Service], Awaitable[T]]) -> T:
    """Return the answer of a service on this machine's home that runs no job. what: "an approval is
    given". Raises UsageError if a server is named, since its home is elsewhere."""
    import anyio

    from .backend import choose

    async def run() -> T:
        async with choose().service(what) as service:
            return await work(service)

    return anyio.run(run)


def name_of(by: str) -> str:
    """Return the name that was given, else the user's login name. Raises UsageError where there is
    neither."""
    try:
        return by or getpass.getuser()
    except (KeyError, OSError):  # the user has no entry, as in some containers
        raise UsageError(
            "this user has no login name on this machine.", "Say who decides: --by NAME."
        ) from None
