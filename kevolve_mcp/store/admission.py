"""Whether one more node fits the evaluation budget of a session.

Spent evaluations and running measurements count. A job reserves its place in the transaction that
creates its row, so concurrent processes cannot exceed the budget. An open ask does not block a
submitted kernel, and an ask whose lease expired reserves nothing.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Row, select

from harness.types import Budget, from_json
from kevolve_mcp.actions import Action
from kevolve_mcp.errors import BudgetFull

from . import schema, spending
from .asks import ask_of, unanswered
from .records import BudgetPlace, Demand, Measuring
from .rows import number

NODE_JOB = "submit"  # the kind of the jobs that end with a node


def admit_job(connection: Connection, session: Row[Any], payload: dict[str, Any]) -> None:
    """Admit a job whose node does not exist yet. The caller has locked the session's row and
    inserts the job in the same transaction. Raises BudgetFull."""
    limit = _limit(session)
    if limit is None or _is_told(connection, session.id, payload):
        return
    spent = spending.evaluations(connection, session.id)
    under_way = measuring(connection, session.id)
    if spent + len(under_way) >= limit:
        raise _full(session.id, spent, limit, under_way)


def admit_node(
    connection: Connection, session: Row[Any], before: int, place: BudgetPlace, now: float
) -> None:
    """Admit a node that was inserted in this transaction. before: the evaluations spent without it;
    a known evaluation costs none. Raises BudgetFull."""
    limit = _limit(session)
    if limit is None or place == "held":
        return
    after = spending.evaluations(connection, session.id)
    under_way = measuring(connection, session.id)
    wanted = len(under_way)
    if place == "left_over":
        asks = {each.ask for each in under_way}
        wanted += sum(ask.seq not in asks for ask in _open(connection, session.id, now))
    if after > before and after + wanted > limit:
        raise _full(session.id, before, limit, under_way)


def demand(connection: Connection, session: str, now: float) -> Demand:
    """Return a consistent snapshot of what is spent, what is being measured and which asks are
    open."""
    return Demand(
        spending.spent(connection, session),
        measuring(connection, session),
        tuple(_open(connection, session, now)),
    )


def measuring(connection: Connection, session: str) -> tuple[Measuring, ...]:
    """Return the jobs that reserve a place: their nodes do not exist yet; a lost job is run
    again."""
    j = schema.jobs
    rows = connection.execute(
        select(j.c.id, j.c.payload)
        .where(j.c.session == session, j.c.kind == NODE_JOB, j.c.state.in_(("running", "lost")))
        .order_by(j.c.id)
    ).all()
    return tuple(
        Measuring(f"j{row.id}", row.payload.get("ask"))
        for row in rows
        if not _is_told(connection, session, row.payload)
    )


def _is_told(connection: Connection, session: str, payload: dict[str, Any]) -> bool:
    """Whether the tree already has the node of this job: `Nodes.add` then returns the existing
    node, also if it is measured again."""
    n, p = schema.nodes, schema.node_parents
    ask, parents = payload.get("ask"), [number(each, "n") for each in payload.get("parents", ())]
    same = select(n.c.seq).where(n.c.session == session, n.c.candidate == payload.get("candidate"))
    if ask is not None:
        return connection.execute(same.where(n.c.ask == ask)).first() is not None
    for seq in connection.execute(same.where(n.c.ask.is_(None))).scalars().all():
        has = select(p.c.parent).where(p.c.session == session, p.c.seq == seq)
        if not parents or parents == list(
            connection.execute(has.order_by(p.c.position)).scalars().all()
        ):
            return True
    return False


def _open(connection: Connection, session: str, now: float) -> list[Any]:
    rows = connection.execute(unanswered(session).where(schema.asks.c.lease_until > now)).all()
    return [ask_of(row) for row in rows]


def _limit(session: Row[Any]) -> int | None:
    return from_json(Budget, session.budget).evaluations


def _full(session: str, spent: int, limit: int, under_way: tuple[Measuring, ...]) -> BudgetFull:
    used = f"{spent} of {limit} evaluations are spent"
    if spent >= limit:
        return BudgetFull(
            f"the budget of session {session} has no place for another node: {used}.",
            "Finish the session, which confirms and exports its best node, or raise the budget "
            "with the next ask.",
            Action("finish", "ends the search with its best node", session=session),
            Action("next_ask", "with a larger budget goes on", session=session),
        )
    jobs = ", ".join(each.job for each in under_way)
    rest = f"the rest is being measured ({jobs})" if jobs else "open asks reserve the rest"
    return BudgetFull(
        f"the budget of session {session} has no place for another node: {used}, and {rest}.",
        "Wait for the running measurements, then finish the session; a failed measurement frees "
        "its place.",
        Action("wait", "waits for running jobs", session=session),
        Action("finish", "ends the search with its best node", session=session),
    )
