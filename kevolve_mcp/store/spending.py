"""What a session has spent of its budget, derived only from rows."""

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
)  # purposes; confirming and measuring the winner is not charged to the budget


def spent(connection: Connection, session: str) -> Spent:
    """Return what a session has spent.

    evaluations: those of the session's nodes that this session paid for; answers from the store,
    and kernels that were only compiled, checked or profiled, cost none. device_seconds: of all
    evaluations it paid for, with or without nodes. tokens, usd: of its nodes. seconds: working
    time, in which a candidate was being evaluated or an author wrote one that was submitted;
    pauses, opening the task and unanswered asks do not count, and overlapping times count once."""
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
    """Return the number of evaluations spent, see `spent`."""
    e, n = schema.evaluations, schema.nodes
    counted = select(n.c.evaluation).where(n.c.session == session)
    return connection.execute(
        select(func.count()).where(_own(session), e.c.id.in_(counted))
    ).scalar_one()


def _own(session: str) -> ColumnElement[bool]:
    """Whether an evaluation was measured in the session's search and paid for by it."""
    e = schema.evaluations
    return and_(e.c.session == session, e.c.purpose.in_(SEARCHING))


def _written(connection: Connection, session: str) -> list[tuple[float, float]]:
    """The time of each answered ask from being taken until its answer was submitted: the start of
    its job, or its node if there was no job."""
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
    """The length of the union of intervals."""
    total, reached = 0.0, float("-inf")
    for start, end in sorted(intervals):
        total += max(0.0, end - max(start, reached))
        reached = max(reached, end)
    return total
