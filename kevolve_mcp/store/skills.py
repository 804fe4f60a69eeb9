"""Skills that searches have written: proposed with evidence, then decided."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Sequence
from typing import Any

from sqlalchemy import Connection, Row, insert, select, update

from kevolve_mcp.errors import NotFound

from . import schema
from .artifacts import Artifacts
from .engine import Database
from .records import NewSkill, SkillEvent, SkillEvidence, SkillRecord, SkillState
from .rows import insert_once, next_seq

_SLUG_LENGTH = 50


class Skills:
    """The state changes; text, evidence and events are insert-only. Every change of state leaves an event."""

    def __init__(self, database: Database, artifacts: Artifacts, clock: Callable[[], float]) -> None:
        self._database = database
        self._artifacts = artifacts
        self._clock = clock

    def propose(self, new: NewSkill, evidence: Sequence[SkillEvidence], *, author: str = "") -> SkillRecord:
        """Keep skill, evidence and event in one transaction. The same title with evidence of the same session, node and
        parent is the same proposal and gives the skill that is there."""
        files = {name: self._artifacts.put(text) for name, text in new.files.items()}
        with self._database.write() as connection:
            if (known := _proposed(connection, new.title, evidence)) is not None:
                row = _row(connection, known)
            else:
                row = _row(connection, self._insert(connection, new, files, author))
                self._add_evidence(connection, row.id, evidence)
        return self._record(row)

    def get(self, skill: str) -> SkillRecord:
        """Raises NotFound."""
        with self._database.read() as connection:
            row = _row(connection, skill)
        return self._record(row)

    def list(self, state: SkillState | None = None) -> tuple[SkillRecord, ...]:
        """The oldest first."""
        query = select(schema.skills).order_by(schema.skills.c.created, schema.skills.c.id)
        if state is not None:
            query = query.where(schema.skills.c.state == state)
        with self._database.read() as connection:
            rows = connection.execute(query).all()
        return tuple(map(self._record, rows))

    def decide(
        self, skill: str, state: SkillState, message: str, *, author: str = "", data: dict[str, Any] | None = None
    ) -> SkillRecord:
        """Move it to a state, with an event that says why. Raises NotFound."""
        with self._database.write() as connection:
            _row(connection, skill, lock=True)
            connection.execute(update(schema.skills).where(schema.skills.c.id == skill).values(state=state))
            self._event(connection, skill, state, message, author, data or {})
            row = _row(connection, skill)
        return self._record(row)

    def add_evidence(self, skill: str, evidence: Sequence[SkillEvidence]) -> None:
        """Add measured uses. Raises NotFound."""
        with self._database.write() as connection:
            _row(connection, skill, lock=True)
            self._add_evidence(connection, skill, evidence)

    def add_event(self, skill: str, kind: str, message: str, *, author: str = "", data: dict[str, Any] | None = None) -> None:
        """Note something that happened to it, such as its use in a session. Raises NotFound."""
        with self._database.write() as connection:
            _row(connection, skill, lock=True)
            self._event(connection, skill, kind, message, author, data or {})

    def evidence(self, skill: str) -> tuple[SkillEvidence, ...]:
        """In the order in which it came. Raises NotFound."""
        t = schema.skill_evidence
        with self._database.read() as connection:
            _row(connection, skill)
            rows = connection.execute(select(t).where(t.c.skill == skill).order_by(t.c.seq)).all()
        return tuple(map(_evidence, rows))

    def events(self, skill: str) -> tuple[SkillEvent, ...]:
        """In the order in which they happened. Raises NotFound."""
        t = schema.skill_events
        with self._database.read() as connection:
            _row(connection, skill)
            rows = connection.execute(select(t).where(t.c.skill == skill).order_by(t.c.seq)).all()
        return tuple(SkillEvent(r.skill, r.seq, r.kind, r.message, r.author, r.created, r.data) for r in rows)

    def _insert(self, connection: Connection, new: NewSkill, files: dict[str, str], author: str) -> str:
        slug = re.sub(r"[^a-z0-9]+", "_", new.title.lower()).strip("_")[:_SLUG_LENGTH].rstrip("_") or "skill"
        values = {f.name: getattr(new, f.name) for f in dataclasses.fields(NewSkill)}
        values.update(signals=list(new.signals), files=files, state="proposed", created=self._clock())
        identifier, count = slug, 1
        while not insert_once(connection, schema.skills, {"id": identifier}, values):
            count += 1
            identifier = f"{slug}_{count}"
        self._event(connection, identifier, "proposed", new.title, author, {})
        return identifier

    def _add_evidence(self, connection: Connection, skill: str, evidence: Sequence[SkillEvidence]) -> None:
        first = next_seq(connection, schema.skill_evidence, "skill", skill)
        for seq, item in enumerate(evidence, first):
            values = {f.name: getattr(item, f.name) for f in dataclasses.fields(SkillEvidence)}
            values["low"], values["high"] = values.pop("interval") or (None, None)
            connection.execute(insert(schema.skill_evidence).values(skill=skill, seq=seq, created=self._clock(), **values))

    def _event(self, connection: Connection, skill: str, kind: str, message: str, author: str, data: dict[str, Any]) -> None:
        seq = next_seq(connection, schema.skill_events, "skill", skill)
        values = {"skill": skill, "seq": seq, "kind": kind, "message": message, "author": author, "data": data}
        connection.execute(insert(schema.skill_events).values(created=self._clock(), **values))

    def _record(self, row: Row[Any]) -> SkillRecord:
        values = {f.name: getattr(row, f.name) for f in dataclasses.fields(SkillRecord)}
        values.update(
            signals=tuple(row.signals), files={name: self._artifacts.text(digest) for name, digest in row.files.items()}
        )
        return SkillRecord(**values)


def _row(connection: Connection, skill: str, *, lock: bool = False) -> Row[Any]:
    query = select(schema.skills).where(schema.skills.c.id == skill)
    row = connection.execute(query.with_for_update() if lock else query).one_or_none()
    if row is None:
        raise NotFound(f"there is no skill {skill!r}.", "knowledge_search finds the skills that exist.")
    return row


def _proposed(connection: Connection, title: str, evidence: Sequence[SkillEvidence]) -> str | None:
    s, t = schema.skills, schema.skill_evidence
    for item in evidence:
        query = select(s.c.id).join(t, t.c.skill == s.c.id)
        same = (t.c.session == item.session, t.c.node == item.node, t.c.parent.is_not_distinct_from(item.parent))
        found: str | None = connection.execute(query.where(s.c.title == title, *same)).scalars().first()
        if found is not None:
            return found
    return None


def _evidence(row: Row[Any]) -> SkillEvidence:
    interval = None if row.low is None else (row.low, row.high)
    values = {f.name: getattr(row, f.name) for f in dataclasses.fields(SkillEvidence) if f.name != "interval"}
    return SkillEvidence(**values, interval=interval)
