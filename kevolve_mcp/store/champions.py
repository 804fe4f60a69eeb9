"""The best nodes of many sessions, the same as in their trees, in a few queries; and nodes refuted
by a confirmation although their own evaluation is correct.

Loading a tree reads the texts of all its candidates; a list of sessions only needs the figures of
nodes that may be the best."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection, Row, ScalarSelect, and_, exists, or_, select

from kevolve_mcp.search.fitness import interval
from kevolve_mcp.search.node import Node

from . import notes, schema
from .evaluation_ids import row_ids
from .evaluations import PROVED_WRONG, case_results

# A failed build or a call that does not end, after both succeeded before, is rather the machine's
# fault than the candidate's.
_REFUTING = (*PROVED_WRONG, "crashed", "invalid")


def refuted() -> ScalarSelect[int]:
    """Return the query for the evaluation that refutes a node, NULL without one: of exports, and of
    confirmations under the same policy, of its candidate, task and target, in any session, by the
    newest protocol, the newest that proved it wrong, else the newest verdict. "Needs a review"
    refutes a node unless a person approved it."""
    n, s, a = schema.nodes, schema.sessions.alias(), schema.approvals
    judged, last, own = (schema.evaluations.alias() for _ in range(3))
    approved = exists().where(a.c.session == n.c.session, a.c.node == n.c.seq)
    wrong_first = (judged.c.protocol, judged.c.status.in_(PROVED_WRONG), judged.c.id)
    decides = (
        select(judged.c.id)
        .select_from(judged)
        .join(
            s,
            and_(
                s.c.id == n.c.session,
                s.c.task == judged.c.task,
                s.c.target == judged.c.target,
            ),
        )
        .join(own, own.c.id == n.c.evaluation)
        .where(
            judged.c.candidate == n.c.candidate,
            # exports are judged under a policy of their own
            or_(
                judged.c.purpose == "export",
                and_(judged.c.purpose == "confirm", judged.c.policy == own.c.policy),
            ),
            or_(
                judged.c.status.in_(("correct", *_REFUTING)),
                and_(judged.c.status == "needs_review", ~approved.correlate(n)),
            ),
        )
        .order_by(*(each.desc() for each in wrong_first))
        .limit(1)
        .correlate(n)
    )
    wrong = select(last.c.id).where(
        last.c.id == decides.scalar_subquery(), last.c.status != "correct"
    )
    return wrong.correlate(n).scalar_subquery()


def contenders(connection: Connection, rows: Iterable[Row[Any]]) -> list[Node]:
    """Return nodes with what `search.ranking` needs, in the order of `rows`, without the ids of
    their evaluations.

    rows: with seq, candidate, evaluation (the row id of the one that counts), status, fitness,
    eligible, annotations, refuted."""
    node_rows = list(rows)
    cases = case_results(connection, [row.evaluation for row in node_rows])
    return [
        Node(
            id=f"n{row.seq}",
            seq=row.seq,
            parents=(),
            candidate=row.candidate,
            evaluation="",
            status=row.status,
            fitness=row.fitness,
            eligible=row.eligible and row.refuted is None,
            interval=interval(cases[row.evaluation]),
            met=notes.of_node(row.annotations).met,
        )
        for row in node_rows
    ]


def completed(connection: Connection, session: str, nodes: Sequence[Node]) -> tuple[Node, ...]:
    """Return nodes of `load_nodes` completed with what `search.ranking` needs."""
    rows = row_ids(connection, session, [node.evaluation for node in nodes])
    cases = case_results(connection, list(rows.values()))
    return tuple(
        replace(
            node,
            interval=interval(cases[rows[node.evaluation]]) if node.fitness else None,
        )
        for node in nodes
    )
