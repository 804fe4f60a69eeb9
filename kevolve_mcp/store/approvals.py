"""Approvals of nodes by persons."""

from __future__ import annotations

from collections.abc import Callable

from sqlalchemy import Connection, insert, select

from kevolve_mcp.actions import Action
from kevolve_mcp.errors import NotFound

from . import schema
from .engine import Database
from .records import Approval
from .rows import number, session_row


class Approvals:
    """Approvals, insert-only. The first approval of a node counts; a later one is kept too, and
    covers signals found since."""

    def __init__(self, database: Database, clock: Callable[[], float]) -> None:
        self._database = database
        self._clock = clock

    def add(self, session: str, node: str, author: str, note: str = "") -> Approval:
        """Add an approval. Raises NotFound (session, node)."""
        seq, now = number(node, "n"), self._clock()
        with self._database.write() as connection:
            session_row(connection, session)
            n = schema.nodes
            if not connection.execute(
                select(1).select_from(n).where(n.c.session == session, n.c.seq == seq)
            ).first():
                raise NotFound(
                    f"session {session} has no node {node}.",
                    "",
                    Action("view", "lists them", session=session),
                )
            values = {
                "session": session,
                "node": seq,
                "author": author,
                "note": note,
                "created": now,
            }
            connection.execute(insert(schema.approvals).values(values))
        return Approval(node, author, note, now)

    def of(self, session: str) -> dict[str, Approval]:
        """Return the first approval of each node, by node id."""
        with self._database.read() as connection:
            return load_approvals(connection, session)

    def newest(self, session: str) -> dict[str, Approval]:
        """Return the newest approval of each node, which covers most, by node id."""
        with self._database.read() as connection:
            return {a.node: a for a in _in_order(connection, session)}


def load_approvals(connection: Connection, session: str) -> dict[str, Approval]:
    """Return the first approval of each node."""
    return {a.node: a for a in reversed(_in_order(connection, session))}


def _in_order(connection: Connection, session: str) -> list[Approval]:
    a = schema.approvals
    rows = connection.execute(select(a).where(a.c.session == session).order_by(a.c.id))
    return [Approval(f"n{row.node}", row.author, row.note, row.created) for row in rows]
