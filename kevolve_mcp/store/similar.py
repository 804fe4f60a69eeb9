"""Kernels of earlier sessions: the best ones for similar tasks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, select

from harness.types import Task, from_json
from kevolve_mcp.search.node import Node
from kevolve_mcp.search.ranking import first, standings

from . import schema
from .champions import contenders, refuted
from .nodes import counted
from .rows import SLICE, outcome_of
from .signature import Signature


@dataclass(frozen=True)
class Match:
    """The best node of one task, target and language. confirmed: the evaluation that confirmed it
    when its session was finished, "" without one."""

    task: str
    session: str
    seq: int
    candidate: str
    target: str
    language: str
    device: str
    similarity: float
    fitness: float
    confirmed: str


class Signatures:
    """The signatures of a store's tasks, each made once, since a task never changes."""

    def __init__(self) -> None:
        self._known: dict[str, Signature] = {}

    def near(self, connection: Connection, task: Task, least: float) -> dict[str, float]:
        """Return the similarity of tasks by digest, where it is at least `least` and above 0."""
        t, own = schema.tasks, Signature.of(task)
        digests = connection.execute(select(t.c.digest)).scalars().all()
        new = [digest for digest in digests if digest not in self._known]
        for start in range(0, len(new), SLICE):
            for row in connection.execute(
                select(t.c.digest, t.c.facts).where(t.c.digest.in_(new[start : start + SLICE]))
            ):
                self._known[row.digest] = Signature.of(from_json(Task, {**row.facts, "source": ""}))
        similarities = {digest: own.similarity(self._known[digest]) for digest in digests}
        return {
            digest: value for digest, value in similarities.items() if value >= least and value > 0
        }


def matches(
    connection: Connection,
    near: dict[str, float],
    target: str,
    language: str,
    *,
    exclude_session: str,
    before: float | None,
) -> list[Match]:
    """Return one match per task, target and language, the most useful first. before: only nodes
    that existed by then."""
    s, n, e = schema.sessions, schema.nodes, schema.evaluations
    query = (
        select(
            s.c.task,
            s.c.outcome,
            n.c.session,
            n.c.seq,
            n.c.candidate,
            s.c.target,
            s.c.language,
            n.c.annotations,
            n.c.created,
            e.c.id.label("evaluation"),
            e.c.device,
            e.c.status,
            e.c.fitness,
            e.c.eligible,
            refuted().label("refuted"),
        )
        .select_from(n)
        .join(s, s.c.id == n.c.session)
        .join(e, e.c.id == counted())
        .where(
            s.c.task.in_(list(near)),
            n.c.session != exclude_session,
            e.c.eligible,
            e.c.status == "correct",
            e.c.fitness > 0,
        )
        .order_by(n.c.created, n.c.session, n.c.seq)
    )
    if before is not None:
        query = query.where(n.c.created <= before)
    rows = list(_standing(connection.execute(query)))
    best: dict[tuple[str, str, str], Match] = {}
    for row, node in _leading(rows, contenders(connection, rows)):
        ended = outcome_of(row)
        confirmed = ended.confirmed if ended is not None and ended.node == node.id else ""
        match = Match(
            row.task, row.session, row.seq, row.candidate, row.target, row.language, row.device,
            near[row.task], row.fitness, confirmed
        )  # fmt: skip
        best.setdefault((row.task, row.target, row.language), match)

    def rank(match: Match) -> tuple[int, float, float]:
        group = 2 * (match.language == language) + (match.target == target)
        return (-group, -match.similarity, -match.fitness)

    return sorted(best.values(), key=rank)


def _leading(rows: list[Row[Any]], nodes: list[Node]) -> list[tuple[Row[Any], Node]]:
    """The best node of each session's tree; sessions by the standing of that node, then the earlier
    one first."""
    by_session: defaultdict[str, list[tuple[Row[Any], Node]]] = defaultdict(list)
    for row, node in zip(rows, nodes, strict=True):
        by_session[row.session].append((row, node))
    leaders: list[tuple[float, Row[Any], Node]] = []
    for pairs in by_session.values():
        known = standings(node for _, node in pairs)
        best = first((node for _, node in pairs), known)
        leaders += [(known[node.id], row, node) for row, node in pairs if node is best]
    leaders.sort(key=lambda each: (-each[0], each[1].created))
    return [(row, node) for _, row, node in leaders]


def _standing(rows: Iterable[Row[Any]]) -> Iterable[Row[Any]]:
    """The rows without nodes that were not confirmed at the end of their session."""
    for row in rows:
        ended = outcome_of(row)
        if ended is None or f"n{row.seq}" not in ended.rejected:
            yield row
