"""How often skills were shown, used and useful: counted from rows inserted with asks, nodes and the
end of a session."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from sqlalchemy import func, select

from . import notes, schema
from .engine import Database
from .records import SkillOutcome, SkillUse
from .rows import insert_once, number


class SkillUses:
    """Uses of skills. Skills are named by the id of their page, so that those that come with the
    program are counted like others."""

    def __init__(self, database: Database, clock: Callable[[], float]) -> None:
        self._database = database
        self._clock = clock

    def shown(self, session: str, ask: int, *, earlier: bool = False) -> tuple[str, ...]:
        """Return the skills in one ask. earlier: whether to include earlier asks of its session."""
        t = schema.skill_shown
        asks = t.c.ask <= ask if earlier else t.c.ask == ask
        query = select(t.c.skill).distinct().where(t.c.session == session, asks).order_by(t.c.skill)
        with self._database.read() as connection:
            return tuple(connection.execute(query).scalars())

    def retrievals(self) -> Counter[str]:
        """Return the number of asks that showed each skill."""
        t = schema.skill_shown
        with self._database.read() as connection:
            return Counter(
                {
                    row[0]: row[1]
                    for row in connection.execute(
                        select(t.c.skill, func.count()).group_by(t.c.skill)
                    )
                }
            )

    def uses(self, session: str = "") -> tuple[SkillUse, ...]:
        """Return the uses in one session, or all, in the order of their nodes."""
        t = schema.skill_uses
        query = select(t).order_by(t.c.session, t.c.node, t.c.skill)
        with self._database.read() as connection:
            rows = connection.execute(
                query.where(t.c.session == session) if session else query
            ).all()
        return tuple(SkillUse(r.skill, r.session, f"n{r.node}", r.how) for r in rows)

    def add_outcomes(self, outcomes: Sequence[SkillOutcome]) -> None:
        """Add outcomes. A session counts once for a skill: the first outcome is kept."""
        t = schema.skill_outcomes
        with self._database.write() as connection:
            for item in outcomes:
                low, high = item.interval or (None, None)
                values = {
                    "node": number(item.node, "n"),
                    "status": item.status,
                    "effect": item.effect,
                    "low": low,
                    "high": high,
                }
                insert_once(
                    connection,
                    t,
                    {"skill": item.skill, "session": item.session},
                    {**values, "created": self._clock()},
                )

    def outcomes(self, skill: str = "") -> tuple[SkillOutcome, ...]:
        """Return the outcomes of one skill, or all, the oldest first."""
        t, n, s = schema.skill_outcomes, schema.nodes, schema.sessions
        query = (
            select(t, n.c.annotations, s.c.task)
            .join(n, (n.c.session == t.c.session) & (n.c.seq == t.c.node))
            .join(s, s.c.id == t.c.session)
            .order_by(t.c.created, t.c.session, t.c.skill)
        )
        with self._database.read() as connection:
            rows = connection.execute(query.where(t.c.skill == skill) if skill else query).all()
        return tuple(
            SkillOutcome(
                r.skill,
                r.session,
                f"n{r.node}",
                r.status,
                r.effect,
                None if r.low is None else (r.low, r.high),
                r.created,
                r.task,
                notes.of_node(r.annotations).author.name,
            )
            for r in rows
        )
