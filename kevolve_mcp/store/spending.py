"""What a session has spent of its budget, derived from rows alone."""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import ColumnElement, Connection, and_, func, select

from harness.types import Spent

from . import schema

SEARCHING = (
    "search",
    "check",
    "compare",
    "ablation",
)  # purposes; what confirms and measures the winner comes after the search and on top of it


def spent(connection: Connection, session: str) -> Spent:
    """evaluations: those of the session's nodes that this session paid for; an answer from the
    store, and a kernel that was only compiled, checked or profiled, costs none. device_seconds: of
    all evaluations it paid for, nodes or not. tokens, usd: of its nodes. seconds: worked time, in
    which a candidate was being evaluated or an author wrote one that was handed in; pauses, the
    opening of the task and an ask that nobody answered are no part of it, and what happens at once
    counts once."""
    e, n = schema.evaluations, schema.nodes
    own = _own(session)
    evaluated = connection.execute(
        select(e.c.created, e.c.seconds, e.c.device_seconds).where(own)
    ).all()
    tokens, usd = connection.execute(
        select(func.coalesce(func.sum(n.c.tokens), 0), func.coalesce(func.sum(n.c.usd), 0.0)).where(
            n.c.session == session
        )
    ).one()
    worked = [
        *((row.created - row.seconds, row.created) for row in evaluated),
        *_written(connection, session),
    ]
    return Spent(
        evaluations(connection, session),
        _together(worked),
        float(sum(row.device_seconds for row in evaluated)),
        int(tokens),
        float(usd),
    )


def evaluations(connection: Connection, session: str) -> int:
    """How many are spent, see `spent`."""
    e, n = schema.evaluations, schema.nodes
    counted = select(n.c.evaluation).where(n.c.session == session)
    return connection.execute(
        select(func.count()).where(_own(session), e.c.id.in_(counted))
    ).scalar_one()


def _own(session: str) -> ColumnElement[bool]:
    """Measured in its search, and paid for by it."""
    e = schema.evaluations
    return and_(e.c.session == session, e.c.purpose.in_(SEARCHING))


def _written(connection: Connection, session: str) -> list[tuple[float, float]]:
    """From when each answered ask was taken until its answer was handed in: when its job began, or
    its node was told at once."""
    a, n, j = schema.asks, schema.nodes, schema.jobs
    nodes = select(a.c.seq, a.c.taken, n.c.created).join(
        n, and_(n.c.session == a.c.session, n.c.ask == a.c.seq)
    )
    handed_in: dict[int, float] = {}
    for payload, created in connection.execute(
        select(j.c.payload, j.c.created).where(j.c.session == session)
    ):
        ask = payload.get("ask")
        if ask is not None:
            handed_in[ask] = max(created, handed_in.get(ask, created))
    intervals = []
    for seq, taken, recorded in connection.execute(
        nodes.where(a.c.session == session, a.c.taken.is_not(None))
    ):
        intervals.append((taken, min(recorded, handed_in.get(seq, recorded))))
    return intervals


def _together(intervals: Iterable[tuple[float, float]]) -> float:
    """The length of the union."""
    total, reached = 0.0, float("-inf")
    for start, end in sorted(intervals):
        total += max(0.0, end - max(start, reached))
        reached = max(reached, end)
    return total
