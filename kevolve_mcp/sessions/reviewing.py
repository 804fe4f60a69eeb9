"""What only a person may say: that a node was looked at and may pass."""

from __future__ import annotations

from kevolve_mcp.errors import Conflict, NotFound

from . import views
from .shared import Shared
from .types import NodeView


async def approve(
    shared: Shared, session_id: str, node_id: str, author: str, note: str
) -> NodeView:
    """Raises NotFound (session, node), Conflict (neither correct nor in need of a review: there is
    nothing to approve)."""
    store = await shared.store()
    tree = await shared.thread(shared.trees.load, store, session_id)
    node = tree.by_id.get(node_id)
    if node is None:
        raise NotFound(
            f"there is no node {node_id}", f"Nodes: {views.ids(tree.nodes[-10:]) or 'none yet'}."
        )
    if node.status not in ("correct", "needs_review"):
        raise Conflict(
            f"{node.id} is {node.status}: only what is correct or needs_review can be approved",
            "Fix it and submit it again.",
        )
    await shared.thread(store.approvals.add, session_id, node_id, author, note)
    tree = await shared.thread(shared.trees.load, store, session_id)
    return views.node_view(tree, tree.by_id[node_id])
