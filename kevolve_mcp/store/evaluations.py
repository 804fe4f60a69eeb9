"""Evaluations with their cases and signals, and the environments in which they were measured, by
digest."""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from sqlalchemy import Connection, Row, Select, Table, insert, select

from harness.types import CaseResult, Environment, Evaluation, from_json, to_json
from kevolve_mcp.errors import StoreError, UsageError

from . import evaluation_ids, schema
from .engine import Database
from .records import Measured, StoredEvaluation
from .rows import SLICE, insert_once, next_seq, session_row

# Verdicts of which one is enough, whatever other evaluations of the same key say.
PROVED_WRONG = ("incorrect", "reward_hack")


class Evaluations:
    """Evaluations, insert-only. Only `find` may replace a measurement; the results of `list` are
    evidence.

    An id depends on the session in which it is used, see `evaluation_ids`; session: that session,
    None outside of sessions.
    """

    def __init__(self, database: Database, clock: Callable[[], float]) -> None:
        self._database = database
        self._clock = clock

    def put(self, evaluation: Evaluation, session: str | None = None) -> str:
        """Store an evaluation and return its id, "e12", or "x12" without a session. session: the
        one that paid for it.

        It is kept beside older ones of the same key, and `find` returns it from then on. Raises
        UsageError when task or candidate were not put before."""
        with self._database.write() as connection:
            row = insert_evaluation(connection, evaluation, session, self._clock())
            return evaluation_ids.names(connection, [row], session)[row]

    def get(self, session: str | None, identifier: str) -> StoredEvaluation:
        """Return an evaluation. Raises NotFound, and UsageError for an id that lacks its
        session."""
        with self._database.read() as connection:
            return get_evaluation(connection, session, identifier)

    def measured(self, session: str | None, identifiers: Iterable[str]) -> dict[str, Measured]:
        """Return the figures of several evaluations with few queries, without those that do not
        exist."""
        e, measurements = schema.evaluations, dict[str, Measured]()
        with self._database.read() as connection:
            rows = evaluation_ids.row_ids(connection, session, list(identifiers))
            names = {row: identifier for identifier, row in rows.items()}
            ids = list(names)
            cases = case_results(connection, ids)
            for start in range(0, len(ids), SLICE):
                query = select(e.c.id, e.c.target, e.c.seconds, e.c.device_seconds)
                for row in connection.execute(query.where(e.c.id.in_(ids[start : start + SLICE]))):
                    measurements[names[row.id]] = Measured(
                        row.target, row.seconds, row.device_seconds, tuple(cases[row.id])
                    )
        return measurements

    def find(self, key: str, session: str | None = None) -> StoredEvaluation | None:
        """Return the newest with exactly this key (`harness.types.evaluation_key`), of those that
        proved it wrong if there are any; None without one."""
        e = schema.evaluations
        with self._database.read() as connection:
            wrong_first = (e.c.status.in_(PROVED_WRONG).desc(), e.c.id.desc())
            query = select(e).where(e.c.key == key).order_by(*wrong_first).limit(1)
            newest = _load(connection, query, session)
        return newest[0] if newest else None

    def list(
        self,
        *,
        task: str | None = None,
        device: str | None = None,
        candidate: str | None = None,
        session: str | None = None,
        limit: int = 1000,
    ) -> tuple[StoredEvaluation, ...]:
        """Return evaluations that match all given values, the newest first."""
        query = select(schema.evaluations).order_by(schema.evaluations.c.id.desc()).limit(limit)
        for name, value in (
            ("task", task),
            ("device", device),
            ("candidate", candidate),
            ("session", session),
        ):
            if value is not None:
                query = query.where(schema.evaluations.c[name] == value)
        with self._database.read() as connection:
            return tuple(_load(connection, query, session))


def insert_evaluation(
    connection: Connection, evaluation: Evaluation, session: str | None, now: float
) -> int:
    """Insert an evaluation with cases and signals in the caller's transaction and return its row
    id. Raises as `Evaluations.put` does."""
    for table, digest, name in (
        (schema.tasks, evaluation.task, "task"),
        (schema.candidates, evaluation.candidate, "candidate"),
    ):
        if not connection.execute(
            select(1).select_from(table).where(table.c.digest == digest)
        ).first():
            raise UsageError(
                f"the evaluation's {name} {digest[:12]!r} is not in the store.",
                f"Put the {name} first.",
            )
    if session is not None:
        session_row(connection, session, lock=True)
    row = {name: getattr(evaluation, name) for name in _PLAIN}
    row.update(
        key=evaluation.key,
        session=session,
        seq=None
        if session is None
        else next_seq(connection, schema.evaluations, "session", session),
        environment=put_environment(connection, evaluation.environment, now),
        device=evaluation.environment.device,
        stages=to_json(evaluation.stages),
        created=now,
    )
    result = connection.execute(insert(schema.evaluations).values(row))
    (identifier,) = result.inserted_primary_key or (0,)
    cases = [
        {
            "evaluation": identifier,
            "position": position,
            "name": case.name,
            "correct": case.correct,
            "speedup": case.speedup,
            "latency_us": case.latency_us,
            "verdict": case.verdict,
            "data": to_json(case),
        }
        for position, case in enumerate(evaluation.cases)
    ]
    signals = [
        {"evaluation": identifier, "position": position, **to_json(signal)}
        for position, signal in enumerate(evaluation.signals)
    ]
    if cases:
        connection.execute(insert(schema.case_results), cases)
    if signals:
        connection.execute(insert(schema.signals), signals)
    return int(identifier)


def get_evaluation(
    connection: Connection, session: str | None, identifier: str
) -> StoredEvaluation:
    """Return an evaluation. Raises as `Evaluations.get` does."""
    e, row = schema.evaluations, evaluation_ids.row_id(connection, session, identifier)
    (found,) = _load(connection, select(e).where(e.c.id == row), session)
    return found


def case_results(
    connection: Connection, evaluations: Sequence[int]
) -> defaultdict[int, list[CaseResult]]:
    """Return the cases of each evaluation, in order. Raises StoreError."""
    c = schema.case_results
    cases: defaultdict[int, list[CaseResult]] = defaultdict(list)
    for start in range(0, len(evaluations), SLICE):
        query = select(c.c.evaluation, c.c.data).where(
            c.c.evaluation.in_(evaluations[start : start + SLICE])
        )
        for row in connection.execute(query.order_by(c.c.evaluation, c.c.position)):
            cases[row.evaluation].append(_case(connection, row.evaluation, row.data))
    return cases


def _case(connection: Connection, evaluation: int, data: Any) -> CaseResult:
    try:
        return from_json(CaseResult, data)
    except ValueError as error:
        called = evaluation_ids.names(connection, [evaluation], None)
        raise _unreadable(called[evaluation], error) from error


def _unreadable(evaluation: str, error: ValueError) -> StoreError:
    return StoreError(
        f"evaluation {evaluation} cannot be read: {error}.",
        "It was written by another version of KEvolve; use that version to read it.",
    )


def signal_names(connection: Connection, evaluations: Select[Any]) -> dict[int, tuple[str, ...]]:
    """Return the ordered signal names of each evaluation that the query selects."""
    s = schema.signals
    rows = connection.execute(
        select(s.c.evaluation, s.c.name)
        .where(s.c.evaluation.in_(evaluations))
        .order_by(s.c.evaluation, s.c.position)
    )
    names: dict[int, tuple[str, ...]] = {}
    for evaluation, name in rows:
        names[evaluation] = (*names.get(evaluation, ()), name)
    return names


_PLAIN = (
    "candidate", "language", "task", "target", "purpose", "status", "message", "policy", "fitness",
    "eligible", "through", "seconds", "device_seconds", "protocol",
)  # fmt: skip


def _load(
    connection: Connection, query: Select[Any], session: str | None
) -> list[StoredEvaluation]:
    """The evaluations with their ids in this session."""
    rows = connection.execute(query).all()
    ids = [row.id for row in rows]
    cases, signals = (
        _by_evaluation(connection, table, ids) for table in (schema.case_results, schema.signals)
    )
    environments = load_environments(connection, (row.environment for row in rows))
    return [
        _stored(row, session, environments[row.environment], cases[row.id], signals[row.id])
        for row in rows
    ]


def _by_evaluation(
    connection: Connection, table: Table, ids: list[int]
) -> defaultdict[int, list[Row[Any]]]:
    grouped: defaultdict[int, list[Row[Any]]] = defaultdict(list)
    for row in connection.execute(
        select(table)
        .where(table.c.evaluation.in_(ids))
        .order_by(table.c.evaluation, table.c.position)
    ):
        grouped[row.evaluation].append(row)
    return grouped


def _stored(
    row: Row[Any],
    session: str | None,
    environment: Environment,
    cases: Sequence[Row[Any]],
    signals: Sequence[Row[Any]],
) -> StoredEvaluation:
    called = evaluation_ids.name(row.id, row.session, row.seq, session)
    data = {name: getattr(row, name) for name in _PLAIN}
    data.update(
        environment=to_json(environment),
        stages=row.stages,
        cases=[case.data for case in cases],
        signals=[
            {"name": signal.name, "message": signal.message, "evidence": signal.evidence}
            for signal in signals
        ],
    )
    try:
        evaluation = from_json(Evaluation, data)
    except ValueError as error:  # CodecError, or a signal that is no longer in the vocabulary
        raise _unreadable(called, error) from error
    return StoredEvaluation(called, row.session, row.created, evaluation)


def environment_digest(environment: Environment) -> str:
    """Return the SHA-256 of the canonical JSON."""
    return hashlib.sha256(json.dumps(to_json(environment), sort_keys=True).encode()).hexdigest()


def put_environment(connection: Connection, environment: Environment, now: float) -> str:
    """Store an environment and return its digest."""
    digest = environment_digest(environment)
    row = {
        "device": environment.device,
        "toolchain": environment.toolchain,
        "data": to_json(environment),
        "created": now,
    }
    insert_once(connection, schema.environments, {"digest": digest}, row)
    return digest


def load_environments(connection: Connection, digests: Iterable[str]) -> dict[str, Environment]:
    """Return environments by digest."""
    table = schema.environments
    rows = connection.execute(
        select(table.c.digest, table.c.data).where(table.c.digest.in_(set(digests)))
    )
    return {row.digest: from_json(Environment, row.data) for row in rows}
