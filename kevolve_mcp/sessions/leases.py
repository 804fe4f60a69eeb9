"""Who holds an ask: the client and the server process that speaks for it, so that a dead process's
asks are free again."""

from __future__ import annotations

from kevolve_mcp.search import Ask, Tree
from kevolve_mcp.search.tree import AUTHOR
from kevolve_mcp.store import Owner
from kevolve_mcp.store.owner import alive, this_process

LEASE_S = 900.0  # an agent may think for long; a dead server's asks do not wait for it


def holder(author: str) -> str:
    """The name under which this process takes asks for `author`."""
    owner = this_process()
    return f"{author or 'somebody'} via {owner.host} {owner.pid} {owner.started}"


def abandoned(ask: Ask) -> bool:
    """Whether the process that took it is known to be dead."""
    _, mark, where = ask.author.rpartition(" via ")
    words = where.split()
    if not mark or len(words) != 3 or not (words[1].isdigit() and words[2].isdigit()):
        return False
    return alive(Owner(words[0], int(words[1]), int(words[2]))) is False


def put_aside(tree: Tree, ask: Ask) -> bool:
    """Whether its author went on without it: handed in, since it took it, a kernel that answers no
    ask."""
    since = ask.created if ask.taken is None else ask.taken
    return any(
        n.ask is None and n.created > since and n.annotations.get(AUTHOR) == ask.author
        for n in tree.nodes
    )
