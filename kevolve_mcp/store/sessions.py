"""Sessions: opening, joining, listing and finishing them, and what they have spent."""

from __future__ import annotations

import dataclasses
import re
import secrets
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any, Literal

from sqlalchemy import Connection, Row, Select, func, select, update

from harness.types import Budget, Goal, Policy, Spent, from_json, to_json
from kevolve_mcp.errors import Conflict, NotFound, UsageError
from kevolve_mcp.search.node import Node
from kevolve_mcp.search.ranking import champion
from kevolve_mcp.search.tree import Tree

from . import admission, schema, spending
from .champions import completed, contenders, refuted
from .engine import Database
from .nodes import counted, load_nodes
from .records import Demand, NewSession, SessionRecord, SessionState, SessionSummary
from .remembered import PastBudget, SessionOptions, SessionOutcome
from .rows import insert_once, outcome_of, session_row

_NAME_LENGTH = 40
_ID = re.compile(r"[a-z0-9_]{1,40}-[0-9a-f]{4,32}")


class Sessions:
    """Sessions. The state changes once, from open to finished or abandoned."""

    def __init__(self, database: Database, clock: Callable[[], float]) -> None:
        self._database = database
        self._clock = clock

    def fresh_id(self, task_name: str) -> str:
        """Return an unused id, for a caller that must name the session before its task is
        examined."""
        with self._database.read() as connection:
            return next(
                i
                for i in _ids(task_name)
                if not connection.execute(select(1).where(schema.sessions.c.id == i)).first()
            )

    def create(self, new: NewSession, identifier: str = "") -> SessionRecord:
        """Create an open session.

        identifier: its id, from `fresh_id`; repeated with the same task, target and language, the
        first session is returned. Raises NotFound when the task was not put before, Conflict when
        another session has that id."""
        with self._database.write() as connection:
            return self._create(connection, new, identifier)

    def join(self, new: NewSession, identifier: str = "") -> tuple[SessionRecord, bool]:
        """Return the newest open session of the same task, target, language, goal and policy, else
        a new one (with that id), and whether it already existed. Of several concurrent callers one
        creates and the others join. Raises as `create`."""
        with self._database.write() as connection:
            record = self._find(
                connection, new.task, new.target, new.language, new.goal, new.policy, lock=True
            )
            return (record, True) if record else (self._create(connection, new, identifier), False)

    def find_open(
        self,
        task: str,
        target: str,
        language: str,
        goal: Goal | None = None,
        policy: Policy | None = None,
    ) -> SessionRecord | None:
        """Return the newest open session that matches; None for goal or policy means any."""
        with self._database.read() as connection:
            return self._find(connection, task, target, language, goal, policy)

    def get(self, session: str) -> SessionRecord:
        """Return a session. Raises NotFound, naming similar ids."""
        with self._database.read() as connection:
            return _record(session_row(connection, session))

    def list(
        self, state: SessionState | None = None, limit: int = 100
    ) -> tuple[SessionSummary, ...]:
        """Return sessions, the newest first."""
        s, n, t, a = schema.sessions, schema.nodes, schema.tasks, schema.approvals
        query = select(s, t.c.name.label("task_name")).join(t, t.c.digest == s.c.task)
        if state:
            query = query.where(s.c.state == state)
        with self._database.read() as connection:
            rows = connection.execute(query.order_by(s.c.created.desc(), s.c.id).limit(limit)).all()
            ids = [row.id for row in rows]
            counted = (
                select(n.c.session, func.count()).where(n.c.session.in_(ids)).group_by(n.c.session)
            )
            counts = {row[0]: row[1] for row in connection.execute(counted)}
            best = _best(connection, ids)
            for id in (
                connection.execute(select(a.c.session).where(a.c.session.in_(ids)).distinct())
                .scalars()
                .all()
            ):
                # a node that needs a review counts once a person has approved it
                nodes = load_nodes(connection, id)
                chosen = Tree(completed(connection, id, nodes), ()).best()
                best[id] = (chosen.id, chosen.fitness) if chosen else (None, None)
        return tuple(
            SessionSummary(
                _record(row), row.task_name, counts.get(row.id, 0), *best.get(row.id, (None, None))
            )
            for row in rows
        )

    def finish(
        self,
        session: str,
        state: Literal["finished", "abandoned"],
        reason: str,
        outcome: SessionOutcome | None = None,
    ) -> SessionRecord:
        """End a session; repeated with the same state it changes nothing. Raises Conflict when it
        ended with the other state."""
        with self._database.write() as connection:
            row = session_row(connection, session, lock=True)
            if row.state == "open":
                values = {
                    "state": state,
                    "reason": reason,
                    "outcome": _outcome(outcome),
                    "finished": self._clock(),
                }
                connection.execute(
                    update(schema.sessions).where(schema.sessions.c.id == session).values(values)
                )
            elif row.state != state:
                raise Conflict(
                    f"session {session} is already {row.state}: {row.reason}.",
                    "Open a new session to continue the search.",
                )
            return _record(session_row(connection, session))

    def spent(self, session: str) -> Spent:
        """Return what a session has spent, see `spending.spent`. Raises NotFound."""
        with self._database.read() as connection:
            session_row(connection, session)
            return spending.spent(connection, session)

    def demand(self, session: str) -> Demand:
        """Return a consistent snapshot of what a session has spent, what is being measured and
        which asks are open. Raises NotFound."""
        with self._database.read() as connection:
            session_row(connection, session)
            return admission.demand(connection, session, self._clock())

    def set_budget(self, session: str, budget: Budget) -> SessionRecord:
        """Replace the budget of an open session; the previous one is kept in its options. Raises
        NotFound, Conflict."""
        with self._database.write() as connection:
            row = session_row(connection, session, lock=True, opened=True)
            if row.budget != to_json(budget):
                before = _record(row)
                past = (*before.options.budgets, PastBudget(before.budget, self._clock()))
                options = dataclasses.replace(before.options, budgets=past)
                values = {"budget": to_json(budget), "options": to_json(options)}
                connection.execute(
                    update(schema.sessions).where(schema.sessions.c.id == session).values(values)
                )
            return _record(session_row(connection, session))

    def _create(self, connection: Connection, new: NewSession, identifier: str) -> SessionRecord:
        if identifier and not _ID.fullmatch(identifier):
            raise UsageError(
                f"{identifier!r} cannot name a session.", "An id looks like rmsnorm-7f3a."
            )
        name = connection.execute(
            select(schema.tasks.c.name).where(schema.tasks.c.digest == new.task)
        ).scalar()
        if name is None:
            raise NotFound(
                f"there is no task with digest {new.task[:12]!r}.",
                "Put the task into the store before its session.",
            )
        record = SessionRecord(**_fields(new), id="", created=self._clock())
        values = {**to_json(record), "seed": str(new.seed), "outcome": _outcome(None)}
        del values["id"]
        for chosen in [identifier] if identifier else _ids(name):
            if insert_once(connection, schema.sessions, {"id": chosen}, values):
                return dataclasses.replace(record, id=chosen)
        created = _record(session_row(connection, identifier))
        if (created.task, created.target, created.language) != (new.task, new.target, new.language):
            raise Conflict(
                f"session {identifier} exists with another task, target or language.",
                "Let the store choose the id.",
            )
        return created

    @staticmethod
    def _find(
        connection: Connection,
        task: str,
        target: str,
        language: str,
        goal: Goal | None,
        policy: Policy | None,
        lock: bool = False,
    ) -> SessionRecord | None:
        s = schema.sessions
        if lock:  # the task's row serializes callers that want to join
            connection.execute(
                select(schema.tasks.c.digest).where(schema.tasks.c.digest == task).with_for_update()
            )
        query = select(s).where(
            s.c.state == "open", s.c.task == task, s.c.target == target, s.c.language == language
        )
        records = map(_record, connection.execute(query.order_by(s.c.created.desc(), s.c.id)))
        return next(
            (r for r in records if goal in (None, r.goal) and policy in (None, r.policy)), None
        )


def _best(connection: Connection, ids: list[str]) -> dict[str, tuple[str | None, float | None]]:
    """Id and F of the best node of each session's tree, where there is one."""
    n, e = schema.nodes, schema.evaluations
    query: Select[Any] = (
        select(
            n.c.session,
            n.c.seq,
            n.c.candidate,
            n.c.annotations,
            e.c.id.label("evaluation"),
            e.c.status,
            e.c.fitness,
            e.c.eligible,
            refuted().label("refuted"),
        )
        .select_from(n)
        .join(e, e.c.id == counted())
        .where(n.c.session.in_(ids), e.c.eligible, e.c.fitness > 0)
    )
    rows = connection.execute(query).all()
    nodes: dict[str, list[Node]] = {}
    for row, node in zip(rows, contenders(connection, rows), strict=True):
        nodes.setdefault(row.session, []).append(node)
    chosen = {session: champion(some) for session, some in nodes.items()}
    return {session: (best.id, best.fitness) for session, best in chosen.items() if best}


def _fields(new: NewSession) -> dict[str, Any]:
    return {f.name: getattr(new, f.name) for f in dataclasses.fields(NewSession)}


def _record(row: Row[Any]) -> SessionRecord:
    values = {f.name: getattr(row, f.name) for f in dataclasses.fields(SessionRecord)}
    values.update(
        goal=from_json(Goal, row.goal),
        budget=from_json(Budget, row.budget),
        policy=from_json(Policy, row.policy),
        options=from_json(SessionOptions, row.options),
        outcome=outcome_of(row),
        seed=int(row.seed),
    )
    return SessionRecord(**values)


def _outcome(outcome: SessionOutcome | None) -> dict[str, Any]:
    """The outcome as stored in the row."""
    return {} if outcome is None else dict(to_json(outcome))


def _ids(name: str) -> Iterator[str]:
    """Endless readable random ids: four digits, more when these seem used up."""
    slug = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")[:_NAME_LENGTH].rstrip("_") or "task"
    for attempt in count():
        yield f"{slug}-{secrets.token_hex(2 if attempt < 16 else 6)}"
