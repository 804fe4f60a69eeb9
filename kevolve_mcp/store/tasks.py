"""Tasks by digest with the measurements of opening them, and candidates by digest."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any

from sqlalchemy import Connection, Row, insert, select

from harness.types import Candidate, Environment, Task, from_json, to_json
from kevolve_mcp.actions import Action
from kevolve_mcp.errors import NotFound, StoreError

from . import schema
from .artifacts import Artifacts
from .engine import Database
from .evaluations import put_environment
from .rows import insert_once


class Tasks:
    """Tasks. Text and facts are those of the first opening; the baselines' times are the newest of
    the requested device."""

    def __init__(
        self, database: Database, artifacts: Artifacts, clock: Callable[[], float]
    ) -> None:
        self._database = database
        self._artifacts = artifacts
        self._clock = clock

    def put(self, task: Task, environment: Environment | None = None) -> None:
        """Store a task; when opened again, only changed baseline and roofline times are added.

        environment: where these times were measured."""
        source = self._artifacts.put(task.source)
        facts = to_json(dataclasses.replace(task, source=""))
        now = self._clock()
        with self._database.write() as connection:
            row = {
                "name": task.name,
                "source": source,
                "operators": task.operators,
                "facts": facts,
                "created": now,
            }
            insert_once(connection, schema.tasks, {"digest": task.digest}, row)
            where = put_environment(connection, environment, now) if environment else None
            latest = _measured(connection, [task.digest], where)
            for case in task.cases:
                if latest.get((task.digest, case.name)) == (
                    case.baselines_us,
                    case.roofline_time_us,
                ):
                    continue
                connection.execute(
                    insert(schema.baselines).values(
                        task=task.digest,
                        environment=where,
                        case_name=case.name,
                        microseconds=case.baselines_us,
                        roofline_time_us=case.roofline_time_us,
                        created=now,
                    )
                )

    def get(self, digest: str, environment: Environment | None = None) -> Task:
        """Return a task, its cases with the newest times of `environment` (default: of any). Raises
        NotFound."""
        from .evaluations import environment_digest

        with self._database.read() as connection:
            row = connection.execute(
                select(schema.tasks).where(schema.tasks.c.digest == digest)
            ).one_or_none()
            if row is None:
                raise NotFound(
                    f"there is no task with digest {digest[:12]!r}.",
                    "Open a session with the task's file first.",
                )
            times = _measured(
                connection, [digest], environment_digest(environment) if environment else None
            )
        return self._task(row, times)

    def list(self) -> tuple[Task, ...]:
        """Return all tasks, the oldest first."""
        with self._database.read() as connection:
            rows = connection.execute(
                select(schema.tasks).order_by(schema.tasks.c.created, schema.tasks.c.digest)
            ).all()
            times = _measured(connection, [row.digest for row in rows], None)
        return tuple(self._task(row, times) for row in rows)

    def _task(
        self, row: Row[Any], times: dict[tuple[str, str], tuple[dict[str, float], float]]
    ) -> Task:
        task = from_json(Task, {**row.facts, "source": self._artifacts.text(row.source)})
        cases = []
        for case in task.cases:
            baselines, roofline = times.get(
                (task.digest, case.name), (case.baselines_us, case.roofline_time_us)
            )
            cases.append(
                dataclasses.replace(case, baselines_us=baselines, roofline_time_us=roofline)
            )
        return dataclasses.replace(task, cases=tuple(cases))


def _measured(
    connection: Connection, tasks: Iterable[str], environment: str | None
) -> dict[tuple[str, str], tuple[dict[str, float], float]]:
    """Newest baseline times (microseconds by name) and roofline time by (task, case)."""
    table = schema.baselines
    query = select(table).where(table.c.task.in_(list(tasks))).order_by(table.c.id)
    if environment:
        query = query.where(table.c.environment == environment)
    return {
        (row.task, row.case_name): (row.microseconds, row.roofline_time_us)
        for row in connection.execute(query)
    }


class Candidates:
    """Candidates. The source is an artifact; the row adds the language."""

    def __init__(
        self, database: Database, artifacts: Artifacts, clock: Callable[[], float]
    ) -> None:
        self._database = database
        self._artifacts = artifacts
        self._clock = clock

    def put(self, candidate: Candidate) -> str:
        """Store a candidate and return its digest; repeated, it changes nothing."""
        source = self._artifacts.put(candidate.source)
        row = {"language": candidate.language, "source": source, "created": self._clock()}
        with self._database.write() as connection:
            insert_once(connection, schema.candidates, {"digest": candidate.digest}, row)
        return candidate.digest

    def get(self, digest: str) -> Candidate:
        """Return a candidate. Raises NotFound; StoreError when text and digest do not match."""
        with self._database.read() as connection:
            row = connection.execute(
                select(schema.candidates).where(schema.candidates.c.digest == digest)
            ).one_or_none()
        if row is None:
            raise NotFound(
                f"there is no candidate with digest {digest[:12]!r}.",
                "",
                Action("view", "shows the nodes and their candidates"),
            )
        candidate = Candidate(self._artifacts.text(row.source), row.language)
        if candidate.digest != digest:
            raise StoreError(
                f"the row of candidate {digest[:12]} names another text.",
                "The database was changed by hand; restore it.",
            )
        return candidate
