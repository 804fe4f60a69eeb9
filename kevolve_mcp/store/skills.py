"""Skills that searches have written: proposed with evidence, then decided."""

from __future__ import annotations

import dataclasses
import re
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
    """The state changes; text, evidence and events are insert-only. Every change leaves an
    event."""

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
        """Keep skill, evidence and event in one transaction; the skill and whether it is a new one.

        Where there is one of which `same` says that it is the same skill (it sees no files; by
        default title, target and language decide), only what is new of the evidence is added to it.
        The look and the writing are one transaction, so two writers make one skill. kind: of the
        first event."""
        files = {name: self._artifacts.put(text) for name, text in new.files.items()}
        with self._database.write() as connection:
            # there, unlike in SQLite, another writer may insert a twin meanwhile
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
        self,
        skill: str,
        state: SkillState,
        message: str,
        *,
        author: str = "",
        data: dict[str, Any] | None = None,
        expected: SkillState | None = None,
    ) -> SkillRecord:
        """Move it to a state, with an event that says why; one that is there already stays as it
        is.

        expected: move it only from this state, else leave it: somebody else decided meanwhile.
        Raises NotFound, and Conflict where no way leads from its state to the new one."""
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
        """Add measured uses; how many of them were not there yet. Raises NotFound."""
        with self._database.write() as connection:
            _row(connection, skill, lock=True)
            return self._add_evidence(connection, skill, evidence)

    def revision(self) -> tuple[int, int]:
        """Differs whenever a state, a piece of evidence or an outcome has come since: what is
        derived from skills is then to be derived anew."""
        counts = (
            select(func.count()).select_from(t)
            for t in (schema.skill_events, schema.skill_outcomes)
        )
        with self._database.read() as connection:
            events, outcomes = (int(connection.execute(query).scalar_one()) for query in counts)
        return events, outcomes

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
        return tuple(
            SkillEvent(r.skill, r.seq, r.kind, r.message, r.author, r.created, r.data) for r in rows
        )

    def _insert(
        self, connection: Connection, new: NewSkill, files: dict[str, str], author: str, kind: str
    ) -> str:
        slug = (
            re.sub(r"[^a-z0-9]+", "_", new.title.lower()).strip("_")[:_SLUG_LENGTH].rstrip("_")
            or "skill"
        )
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
    """Without its files."""
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
    """Equal for two tellings of one measurement. Sessions of two stores may have one name: where it
    is from belongs to it."""
    return item.session, item.node, item.parent, item.task, item.device, bool(item.origin)


def _evidence(row: Row[Any]) -> SkillEvidence:
    interval = None if row.low is None else (row.low, row.high)
    values = {
        f.name: getattr(row, f.name)
        for f in dataclasses.fields(SkillEvidence)
        if f.name != "interval"
    }
    return SkillEvidence(**values, interval=interval)
