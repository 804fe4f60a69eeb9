"""What a confirmation proved wrong: the node's own evaluation still calls it correct."""

from __future__ import annotations

from sqlalchemy import ScalarSelect, and_, exists, func, or_, select

from . import schema

# A build that fails or a call that does not end, where both went well before, says more about the
# machine than about the candidate.
_PROVED_WRONG = ("incorrect", "reward_hack", "crashed", "invalid")


def refuted() -> ScalarSelect[int]:
    """The evaluation that refutes a node, NULL without one: the newest verdict of a confirmation,
    or of an export, on the same candidate, task and target, whoever paid for it. One that needs a
    review is a verdict unless a person let the node pass."""
    n, s, a = schema.nodes, schema.sessions.alias(), schema.approvals
    found, last = schema.evaluations.alias(), schema.evaluations.alias()
    approved = exists().where(a.c.session == n.c.session, a.c.node == n.c.seq)
    newest = (
        select(func.max(found.c.id))
        .select_from(found)
        .join(
            s,
            and_(
                s.c.id == n.c.session,
                s.c.task == found.c.task,
                s.c.target == found.c.target,
            ),
        )
        .where(
            found.c.candidate == n.c.candidate,
            found.c.purpose.in_(("confirm", "export")),
            or_(
                found.c.status.in_(("correct", *_PROVED_WRONG)),
                and_(found.c.status == "needs_review", ~approved.correlate(n)),
            ),
        )
        .correlate(n)
    )
    wrong = select(last.c.id).where(last.c.id == newest.scalar_subquery())
    return wrong.where(last.c.status != "correct").correlate(n).scalar_subquery()
