"""Ending a session with an export or without one; and the approval of a node by a person."""

from __future__ import annotations

from kevolve_mcp import api
from kevolve_mcp.actions import Action
from kevolve_mcp.errors import Conflict, NotFound
from kevolve_mcp.store import SessionRecord, Store

from . import confirming
from .job import FinishParameters
from .shared import Shared, UseCase
from .trees import ids
from .types import FinishRequest


class Finishing(UseCase):
    async def finish(self, request: FinishRequest) -> api.Job:
        """Re-validate, export, measure the package and propose skills; or discard. Return the job
        that ends the session, or its result if it is over. Raises NotFound, Conflict."""
        await self._check_opened(request.session_id)
        shared = self._shared
        store = await shared.store()
        record = await shared.thread(store.sessions.get, request.session_id)
        if request.discard:
            return await _discard(shared, store, record)
        if record.state == "finished":
            exported = record.outcome.node if record.outcome else ""
            if request.node_id and request.node_id != exported:
                raise Conflict(
                    f"session {record.id} is finished with {exported}: "
                    f"{request.node_id} can no longer be exported",
                    "",
                    Action("finish", "reads its package again", session=record.id),
                    Action("open_another", "starts another session"),
                )
            ended = await confirming.finished(shared, record, request.include_files)
            return api.answered("finish", record.id, ended)
        if record.state == "abandoned":
            raise Conflict(
                f"session {record.id} was abandoned: {record.reason}",
                "",
                Action("open_another", "opens another session"),
            )
        tree = await shared.thread(shared.trees.load, store, record.id)
        confirming.choose(record, tree, request.node_id)
        busy = [
            j.id for j in await shared.jobs.list(record.id) if not j.over and j.kind != "finish"
        ]
        if busy:
            raise Conflict(
                f"session {record.id} still has running jobs: {', '.join(busy)}",
                "Wait for them, or cancel them.",
                Action("wait", session=record.id),
                Action("cancel", session=record.id),
            )
        parameters = FinishParameters(
            session=record.id, node=request.node_id, include_files=request.include_files
        )
        return await shared.jobs.start("finish", parameters)

    async def approve(self, session_id: str, node_id: str, author: str, note: str = "") -> api.Node:
        """Record a person's approval of a node: one that needs a review then counts as correct, and
        a session with review may export it. Raises NotFound (session, node), and Conflict for a
        node that is neither correct nor in need of a review."""
        shared = self._shared
        store = await shared.store()
        tree = await shared.thread(shared.trees.load, store, session_id)
        node = tree.by_id.get(node_id)
        if node is None:
            raise NotFound(
                f"there is no node {node_id}",
                f"Nodes: {ids(tree.nodes[-10:]) or 'none yet'}.",
            )
        if node.status not in ("correct", "needs_review"):
            raise Conflict(
                f"{node.id} is {node.status}: only correct or needs_review nodes can be approved",
                "Fix it and submit it again.",
            )
        await shared.thread(store.approvals.add, session_id, node_id, author, note)
        tree = await shared.thread(shared.trees.load, store, session_id)
        return api.node(tree, tree.by_id[node_id])


async def _discard(shared: Shared, store: Store, record: SessionRecord) -> api.Job:
    await shared.background.stop(record.id)
    await shared.jobs.cancel([j.id for j in await shared.jobs.list(record.id) if not j.over])
    await shared.thread(
        confirming.note,
        shared,
        store,
        await shared.thread(shared.trees.load, store, record.id),
        record,
    )
    ended = await shared.thread(
        store.sessions.finish, record.id, "abandoned", "Abandoned on request."
    )
    return api.answered("finish", record.id, await confirming.finished(shared, ended, False))
