"""Skills learned by searches: proposed with evidence, then decided on."""

from __future__ import annotations

import dataclasses
import re
import textwrap
from collections.abc import Callable, Sequence
from typing import Any

from sqlalchemy import Connection, Row, func, insert, select, text, update

from kevolve_mcp.actions import Action
from kevolve_mcp.errors import Conflict, NotFound

from . import schema
from .artifacts import Artifacts
from .engine import Database
from .records import NewSkill, SkillEvent, SkillEvidence, SkillRecord, SkillState
from .rows import insert_once, next_seq

_SLUG_LENGTH = 50


_MOVES: dict[str, tuple[SkillState, ...]] = {
    "proposed": ("accepted", "retired"),
    "accepted": ("contradicted", "retired"),
    "contradicted": ("accepted", "retired"),
    "retired": ("accepted",),
}


class Skills:
    """Learned skills. Their state changes; text, evidence and events are insert-only. Every change
    adds an event."""

    def __init__(
        self, database: Database, artifacts: Artifacts, clock: Callable[[], float]
    ) -> None:
        self._database = database
        self._artifacts = artifacts
        self._clock = clock

    def propose(
        self,
        new: NewSkill,
        evidence: Sequence[SkillEvidence],
        *,
        author: str = "",
        kind: str = "proposed",
        same: Callable[[SkillRecord], bool] | None = None,
    ) -> tuple[SkillRecord, bool]:
        """Store skill, evidence and event in one transaction; return the skill and whether it is
        new.

        If `same` accepts a known skill as the same one (it sees no files; by default title, target
        and language decide), only new evidence is added to that skill. Check and write are one
        transaction, so concurrent writers make one skill. kind: that of the first event."""
        files = {name: self._artifacts.put(text) for name, text in new.files.items()}
        with self._database.write() as connection:
            # unlike SQLite, PostgreSQL would let another writer insert the same skill meanwhile
            if connection.dialect.name == "postgresql":
                connection.execute(text("lock table skills in share row exclusive mode"))
            known = _known(connection, new, same)
            row = _row(
                connection, known or self._insert(connection, new, files, author, kind), lock=True
            )
            added = self._add_evidence(connection, row.id, evidence)
            if known and added:
                self._event(
                    connection,
                    known,
                    "evidence",
                    f"{added} measured use(s) of the same pattern: {new.title}",
                    author,
                    {},
                )
        return self._record(row), known is None

    def get(self, skill: str) -> SkillRecord:
        """Return a skill. Raises NotFound."""
        with self._database.read() as connection:
            row = _row(connection, skill)
        return self._record(row)

    def list(self, state: SkillState | None = None) -> tuple[SkillRecord, ...]:
        """Return skills, the oldest first."""
        query = select(schema.skills).order_by(schema.skills.c.created, schema.skills.c.id)
        if state is not None:
            query = query.where(schema.skills.c.state == state)
        with self._database.read() as connection:
            rows = connection.execute(query).all()
        return tuple(map(self._record, rows))

    def decide(
        self,
        skill: str,
        state: SkillState,
        message: str,
        *,
        author: str = "",
        data: dict[str, Any] | None = None,
        expected: SkillState | None = None,
    ) -> SkillRecord:
        """Move a skill to a state, with an event that gives the reason; a skill that already has
        the state is unchanged.

        expected: move it only from this state, since somebody else may have decided meanwhile.
        Raises NotFound, and Conflict where its state does not allow the new one."""
        with self._database.write() as connection:
            now = _row(connection, skill, lock=True).state
            if now != state and expected in (None, now):
                if state not in _MOVES[now]:
                    raise Conflict(
                        f"skill {skill} is {now}; it cannot become {state}.",
                        f"It may become {' or '.join(_MOVES[now])}.",
                    )
                connection.execute(
                    update(schema.skills).where(schema.skills.c.id == skill).values(state=state)
                )
                self._event(connection, skill, state, message, author, data or {})
            row = _row(connection, skill)
        return self._record(row)

    def add_evidence(self, skill: str, evidence: Sequence[SkillEvidence]) -> int:
        """Add measured uses and return how many of them are new. Raises NotFound."""
        with self._database.write() as connection:
            _row(connection, skill, lock=True)
            return self._add_evidence(connection, skill, evidence)

    def revision(self) -> tuple[int, int]:
        """Return a value that changes with every new state, evidence or outcome: what is derived
        from skills must then be derived again."""
        counts = (
            select(func.count()).select_from(t)
            for t in (schema.skill_events, schema.skill_outcomes)
        )
        with self._database.read() as connection:
            events, outcomes = (int(connection.execute(query).scalar_one()) for query in counts)
        return events, outcomes

    def evidence(self, skill: str) -> tuple[SkillEvidence, ...]:
        """Return a skill's evidence in order. Raises NotFound."""
        t = schema.skill_evidence
        with self._database.read() as connection:
            _row(connection, skill)
            rows = connection.execute(select(t).where(t.c.skill == skill).order_by(t.c.seq)).all()
        return tuple(map(_evidence, rows))

    def events(self, skill: str) -> tuple[SkillEvent, ...]:
        """Return a skill's events in order. Raises NotFound."""
        t = schema.skill_events
        with self._database.read() as connection:
            _row(connection, skill)
            rows = connection.execute(select(t).where(t.c.skill == skill).order_by(t.c.seq)).all()
        return tuple(
            SkillEvent(r.skill, r.seq, r.kind, r.message, r.author, r.created, r.data) for r in rows
        )

    def _insert(
        self, connection: Connection, new: NewSkill, files: dict[str, str], author: str, kind: str
    ) -> str:
        words = re.sub(r"[^a-z0-9]+", " ", new.title.lower()).strip()
        whole = textwrap.shorten(words, _SLUG_LENGTH, placeholder="")  # ends with a whole word
        slug = (whole or words[:_SLUG_LENGTH]).replace(" ", "_") or "skill"
        values = {f.name: getattr(new, f.name) for f in dataclasses.fields(NewSkill)}
        values.update(
            signals=list(new.signals), files=files, state="proposed", created=self._clock()
        )
        identifier, count = slug, 1
        while not insert_once(connection, schema.skills, {"id": identifier}, values):
            count += 1
            identifier = f"{slug}_{count}"
        self._event(connection, identifier, kind, new.title, author, {})
        return identifier

    def _add_evidence(
        self, connection: Connection, skill: str, evidence: Sequence[SkillEvidence]
    ) -> int:
        t = schema.skill_evidence
        there = {
            _identity(_evidence(row))
            for row in connection.execute(select(t).where(t.c.skill == skill))
        }
        fresh = {_identity(item): item for item in evidence if _identity(item) not in there}
        first = next_seq(connection, t, "skill", skill)
        for seq, item in enumerate(fresh.values(), first):
            values = {f.name: getattr(item, f.name) for f in dataclasses.fields(SkillEvidence)}
            values["low"], values["high"] = values.pop("interval") or (None, None)
            connection.execute(
                insert(t).values(skill=skill, seq=seq, created=self._clock(), **values)
            )
        return len(fresh)

    def _event(
        self,
        connection: Connection,
        skill: str,
        kind: str,
        message: str,
        author: str,
        data: dict[str, Any],
    ) -> None:
        seq = next_seq(connection, schema.skill_events, "skill", skill)
        values = {
            "skill": skill,
            "seq": seq,
            "kind": kind,
            "message": message,
            "author": author,
            "data": data,
        }
        connection.execute(insert(schema.skill_events).values(created=self._clock(), **values))

    def _record(self, row: Row[Any]) -> SkillRecord:
        return dataclasses.replace(
            _bare(row),
            files={name: self._artifacts.text(digest) for name, digest in row.files.items()},
        )


def _bare(row: Row[Any]) -> SkillRecord:
    """The skill without its files."""
    values = {f.name: getattr(row, f.name) for f in dataclasses.fields(SkillRecord)}
    return SkillRecord(**{**values, "signals": tuple(row.signals), "files": {}})


def _row(connection: Connection, skill: str, *, lock: bool = False) -> Row[Any]:
    query = select(schema.skills).where(schema.skills.c.id == skill)
    row = connection.execute(query.with_for_update() if lock else query).one_or_none()
    if row is None:
        raise NotFound(
            f"there is no skill {skill!r}.", "", Action("list_skills", "shows those that exist")
        )
    return row


def _known(
    connection: Connection, new: NewSkill, same: Callable[[SkillRecord], bool] | None
) -> str | None:
    same = same or (
        lambda s: (s.title, s.target, s.language) == (new.title, new.target, new.language)
    )
    for row in connection.execute(
        select(schema.skills).order_by(schema.skills.c.created, schema.skills.c.id)
    ):
        known = _bare(row)
        if same(known):
            return known.id
    return None


def _identity(item: SkillEvidence) -> tuple[object, ...]:
    """A key that is equal for equal measurements. It includes the origin, since sessions of two
    stores may have the same name."""
    return item.session, item.node, item.parent, item.task, item.device, bool(item.origin)


def _evidence(row: Row[Any]) -> SkillEvidence:
    interval = None if row.low is None else (row.low, row.high)
    values = {
        f.name: getattr(row, f.name)
        for f in dataclasses.fields(SkillEvidence)
        if f.name != "interval"
    }
    return SkillEvidence(**values, interval=interval)
