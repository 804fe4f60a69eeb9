"""What only a person says, on the machine where the home is: who says it, and how it reaches the
home. No tool of the server does it."""

from __future__ import annotations

import getpass
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

from kevolve_mcp.errors import UsageError

if TYPE_CHECKING:
    from kevolve_mcp.sessions import Service

T = TypeVar("T")


def at_home(what: str, work: Callable[[Service], Awaitable[T]]) -> T:
    """The answer of a service on this machine's home that runs no job. what: "an approval is
    given". Raises UsageError where a server is named: then the home is elsewhere."""
    import anyio

    from .backend import choose

    async def run() -> T:
        async with choose().service(what) as service:
            return await work(service)

    return anyio.run(run)


def name_of(by: str) -> str:
    """The name that was given, else the user's login name. Raises UsageError where there is
    neither."""
    try:
        return by or getpass.getuser()
    except (KeyError, OSError):  # no entry for this user, as in some containers
        raise UsageError(
            "this user has no name on this machine.", "Say who decides: --by NAME."
        ) from None
