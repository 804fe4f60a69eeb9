"""What earlier sessions can lend: the best kernels of tasks that run similar operators."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import Connection, select

from . import schema


def overlap(one: Mapping[str, int], other: Mapping[str, int]) -> float:
    """Multiset Jaccard index |A ∩ B| / |A ∪ B|, 0..1; 0 for two empty ones."""
    a, b = Counter(dict(one)), Counter(dict(other))
    union = (a | b).total()
    return (a & b).total() / union if union else 0.0


@dataclass(frozen=True)
class Match:
    """Where the best node of one task, target and language stands."""

    task: str
    session: str
    seq: int
    candidate: str
    target: str
    language: str
    device: str
    overlap: float
    fitness: float


def matches(
    connection: Connection,
    operators: Mapping[str, int],
    target: str,
    language: str,
    *,
    exclude_session: str = "",
    exclude_task: str = "",
    least: float,
) -> list[Match]:
    """One per task, target and language, the most useful first."""
    t, s, n, e = schema.tasks, schema.sessions, schema.nodes, schema.evaluations
    shared = {digest: overlap(operators, found) for digest, found in connection.execute(select(t.c.digest, t.c.operators))}
    near = [digest for digest, value in shared.items() if value >= least and value > 0 and digest != exclude_task]
    query = (
        select(s.c.task, n.c.session, n.c.seq, n.c.candidate, s.c.target, s.c.language, e.c.device, e.c.fitness)
        .join(s, s.c.id == n.c.session)
        .join(e, e.c.id == n.c.evaluation)
        .where(s.c.task.in_(near), n.c.session != exclude_session, e.c.promotable, e.c.status == "correct", e.c.fitness > 0)
        .order_by(e.c.fitness.desc(), n.c.created, n.c.session, n.c.seq)
    )
    best: dict[tuple[str, str, str], Match] = {}
    for row in connection.execute(query):
        match = Match(
            row.task, row.session, row.seq, row.candidate, row.target, row.language, row.device, shared[row.task], row.fitness
        )
        best.setdefault((row.task, row.target, row.language), match)

    def rank(match: Match) -> tuple[int, float, float]:
        group = 2 * (match.language == language) + (match.target == target)
        return (-group, -match.overlap, -match.fitness)

    return sorted(best.values(), key=rank)
