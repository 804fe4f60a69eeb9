"""Who holds an ask: the client and the server process that speaks for it, so that a dead process's
asks are free again."""

from __future__ import annotations

from kevolve_mcp.search import Ask, AuthorId, Tree
from kevolve_mcp.store import Owner
from kevolve_mcp.store.owner import alive, this_process

LEASE_S = 900.0  # an agent may think for long; a dead server's asks do not wait for it


def holder(name: str) -> AuthorId:
    """As whom this process takes asks for a client of this name."""
    owner = this_process()
    return AuthorId(name, owner.host, owner.pid, owner.started)


def abandoned(ask: Ask) -> bool:
    """Whether the process that took it is known to be dead."""
    by = ask.author
    return bool(by.host) and alive(Owner(by.host, by.pid, by.started)) is False


def put_aside(tree: Tree, ask: Ask) -> bool:
    """Whether its author went on without it: handed in, since it took it, a kernel that answers no
    ask."""
    since = ask.created if ask.taken is None else ask.taken
    return any(n.ask is None and n.created > since and n.author == ask.author for n in tree.nodes)
