"""Jobs: background work that survives the process that runs it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Literal

from sqlalchemy import Connection, Row, insert, select, update

from kevolve_mcp.actions import Action
from kevolve_mcp.errors import Conflict, NotFound

from . import admission, schema
from .engine import Database
from .owner import alive, this_process
from .records import JobRecord, JobState, Owner
from .rows import number, session_row

# an owner that is not visible here counts as dead after this long without a heartbeat
STALE_S = 120.0


class Jobs:
    """Jobs. States: running → done | failed | cancelled, or lost when the owner died; lost →
    running when another process claims it.

    Whether an owner is dead is read from /proc where owner and reader share host, boot and pid
    namespace; elsewhere the age of its heartbeat decides. Call `heartbeat` every few seconds. An
    owner that was wrongly considered dead gets a Conflict from its next heartbeat or finish, and
    must drop its result.
    """

    def __init__(self, database: Database, clock: Callable[[], float]) -> None:
        self._database = database
        self._clock = clock

    def start(
        self, kind: str, session: str | None = None, payload: dict[str, Any] | None = None
    ) -> JobRecord:
        """Create a running job of this process. payload: all that another process needs to run it
        again. Raises NotFound; for a job that ends with a node, Conflict if the session is over and
        BudgetFull if the node does not fit the budget."""
        owner, now = this_process(), self._clock()
        with self._database.write() as connection:
            if session is not None:
                adds = kind == admission.NODE_JOB
                row = session_row(connection, session, lock=adds, opened=adds)
                if adds:
                    admission.admit_job(connection, row, payload or {})
            result = connection.execute(
                insert(schema.jobs).values(
                    kind=kind,
                    session=session,
                    payload=payload or {},
                    state="running",
                    **_owned(owner, now),
                    progress={},
                    attempts=1,
                    cancel_requested=False,
                    created=now,
                )
            )
            (identifier,) = result.inserted_primary_key or (0,)
            return _get(connection, f"j{identifier}")

    def get(self, job: str) -> JobRecord:
        """Return a job. Raises NotFound."""
        with self._database.read() as connection:
            return _get(connection, job)

    def list(
        self,
        *,
        session: str | None = None,
        states: Sequence[JobState] | None = None,
        limit: int = 100,
    ) -> tuple[JobRecord, ...]:
        """Return jobs, the newest first."""
        j = schema.jobs
        query = select(j).order_by(j.c.id.desc()).limit(limit)
        if session is not None:
            query = query.where(j.c.session == session)
        if states is not None:
            query = query.where(j.c.state.in_(states))
        with self._database.read() as connection:
            return tuple(map(_job, connection.execute(query)))

    def seen(self, job: JobRecord) -> JobRecord:
        """Return the job's actual state: lost if its owner is dead, even if the row does not say so
        yet. Writes nothing."""
        return replace(job, state="lost") if job.state == "running" and self._is_dead(job) else job

    def heartbeat(self, job: str, progress: dict[str, Any] | None = None) -> JobRecord:
        """Report that this process still works on the job; check `cancel_requested` of the result.
        Raises Conflict when the job is no longer its own."""
        values = {"heartbeat": self._clock()} | ({} if progress is None else {"progress": progress})
        return self._change_own(job, values)

    def finish(
        self,
        job: str,
        state: Literal["done", "failed", "cancelled"] = "done",
        *,
        result: dict[str, Any] | None = None,
        error: dict[str, Any] | None = None,
        session: str | None = None,
    ) -> JobRecord:
        """End a job. error: KEvolveError.as_dict(). session: the session to which a job without one
        belongs from now on. Raises Conflict when the job is no longer this process's own."""
        now = self._clock()
        values = {"state": state, "result": result, "error": error, "heartbeat": now}
        belongs = {} if session is None else {"session": session}
        return self._change_own(job, {**values, **belongs, "finished": now})

    def request_cancel(self, job: str) -> JobRecord:
        """Ask the owner, whichever process it is, to stop. A lost job is cancelled at once, an
        ended one stays unchanged."""
        j, identifier = schema.jobs, number(job, "j")
        with self._database.write() as connection:
            request = {"cancel_requested": True}
            connection.execute(
                update(j).where(j.c.id == identifier, j.c.state == "running").values(request)
            )
            ended = {**request, "state": "cancelled", "finished": self._clock()}
            connection.execute(
                update(j).where(j.c.id == identifier, j.c.state == "lost").values(ended)
            )
            return _get(connection, job)

    def reclaim_lost(self) -> tuple[JobRecord, ...]:
        """Mark the running jobs of dead owners as lost; return all lost jobs, the oldest first."""
        j = schema.jobs
        with self._database.read() as connection:
            running = [
                _job(row) for row in connection.execute(select(j).where(j.c.state == "running"))
            ]
        dead = [job for job in running if self._is_dead(job)]
        if dead:
            with self._database.write() as connection:
                for job in dead:  # unless its owner or heartbeat changed since it was read
                    same = _owned(job.owner, job.heartbeat)
                    where = [j.c[name] == value for name, value in same.items()]
                    connection.execute(
                        update(j)
                        .where(j.c.id == number(job.id, "j"), j.c.state == "running", *where)
                        .values(state="lost")
                    )
        return tuple(reversed(self.list(states=("lost",), limit=10_000)))

    def claim(self, job: str) -> JobRecord:
        """Take over a lost job as a running job of this process. Exactly one of several claimants
        gets it; the others get Conflict."""
        j, owner = schema.jobs, this_process()
        values = {
            **_owned(owner, self._clock()),
            "state": "running",
            "progress": {},
            "attempts": j.c.attempts + 1,
        }
        with self._database.write() as connection:
            changed = connection.execute(
                update(j).where(j.c.id == number(job, "j"), j.c.state == "lost").values(values)
            ).rowcount
            record = _get(connection, job)
            if not changed:
                raise Conflict(
                    f"job {job} is {record.state} and not lost: there is nothing to claim.",
                    "Wait for it.",
                    Action("wait", job=job),
                )
            return record

    def _is_dead(self, job: JobRecord) -> bool:
        living = alive(job.owner)
        return self._clock() - job.heartbeat > STALE_S if living is None else not living

    def _change_own(self, job: str, values: dict[str, Any]) -> JobRecord:
        j, owner = schema.jobs, this_process()
        with self._database.write() as connection:
            row = _get(connection, job, lock=True)
            if row.state != "running" or row.owner != owner:
                who = (
                    "it is " + row.state
                    if row.state != "running"
                    else f"process {row.owner.pid} on {row.owner.host} took it over"
                )
                raise Conflict(
                    f"job {job} no longer belongs to this process: {who}.",
                    "Drop this run's result.",
                )
            connection.execute(update(j).where(j.c.id == number(job, "j")).values(values))
            return _get(connection, job)


def _owned(owner: Owner, heartbeat: float) -> dict[str, Any]:
    return {
        "owner_host": owner.host,
        "owner_pid": owner.pid,
        "owner_started": str(owner.started),
        "heartbeat": heartbeat,
    }


def _get(connection: Connection, job: str, *, lock: bool = False) -> JobRecord:
    query = select(schema.jobs).where(schema.jobs.c.id == number(job, "j"))
    row = connection.execute(query.with_for_update() if lock else query).one_or_none()
    if row is None:
        raise NotFound(f"there is no job {job}.", "", Action("list_jobs", "lists the jobs"))
    return _job(row)


def _job(row: Row[Any]) -> JobRecord:
    return JobRecord(
        id=f"j{row.id}",
        kind=row.kind,
        session=row.session,
        payload=row.payload,
        state=row.state,
        owner=Owner(row.owner_host, row.owner_pid, int(row.owner_started)),
        created=row.created,
        heartbeat=row.heartbeat,
        finished=row.finished,
        progress=row.progress,
        result=row.result,
        error=row.error,
        attempts=row.attempts,
        cancel_requested=row.cancel_requested,
    )
