"""What earlier sessions can lend: the best kernels of tasks that compute something similar."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, select

from harness.types import Task, from_json

from . import schema
from .signature import Signature

SLICE = 500  # digests named in one query


@dataclass(frozen=True)
class Match:
    """Where the best node of one task, target and language stands. confirmed: the evaluation that
    confirmed it when its session was finished, "" without one."""

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
    """Those of the tasks of one store, made once each: a task never changes."""

    def __init__(self) -> None:
        self._known: dict[str, Signature] = {}

    def near(self, connection: Connection, task: Task, least: float) -> dict[str, float]:
        """Similarity by digest of the tasks that have at least `least`, and more than nothing."""
        t, own = schema.tasks, Signature.of(task)
        digests = connection.execute(select(t.c.digest)).scalars().all()
        new = [digest for digest in digests if digest not in self._known]
        for start in range(0, len(new), SLICE):
            for row in connection.execute(
                select(t.c.digest, t.c.facts).where(t.c.digest.in_(new[start : start + SLICE]))
            ):
                self._known[row.digest] = Signature.of(from_json(Task, {**row.facts, "source": ""}))
        found = {digest: own.similarity(self._known[digest]) for digest in digests}
        return {digest: value for digest, value in found.items() if value >= least and value > 0}


def matches(
    connection: Connection,
    near: dict[str, float],
    target: str,
    language: str,
    *,
    exclude_session: str,
    before: float | None,
) -> list[Match]:
    """One per task, target and language, the most useful first. before: only nodes that were there
    by then."""
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
            e.c.device,
            e.c.fitness,
        )
        .join(s, s.c.id == n.c.session)
        .join(e, e.c.id == n.c.evaluation)
        .where(
            s.c.task.in_(list(near)),
            n.c.session != exclude_session,
            e.c.eligible,
            e.c.status == "correct",
            e.c.fitness > 0,
        )
        .order_by(e.c.fitness.desc(), n.c.created, n.c.session, n.c.seq)
    )
    if before is not None:
        query = query.where(n.c.created <= before)
    best: dict[tuple[str, str, str], Match] = {}
    for row in _standing(connection.execute(query)):
        confirmed = row.outcome["confirmed"] if row.outcome.get("node") == f"n{row.seq}" else ""
        match = Match(
            row.task, row.session, row.seq, row.candidate, row.target, row.language, row.device,
            near[row.task], row.fitness, confirmed
        )  # fmt: skip
        best.setdefault((row.task, row.target, row.language), match)

    def rank(match: Match) -> tuple[int, float, float]:
        group = 2 * (match.language == language) + (match.target == target)
        return (-group, -match.similarity, -match.fitness)

    return sorted(best.values(), key=rank)


def _standing(rows: Iterable[Row[Any]]) -> Iterable[Row[Any]]:
    """Without those that the end of their session refused to confirm."""
    return (row for row in rows if f"n{row.seq}" not in row.outcome.get("rejected", {}))
