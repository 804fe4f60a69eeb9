"""Background jobs: work that outlives the call that started it and, through the store, the process
that runs it."""

from __future__ import annotations

import logging
import statistics
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

import anyio
from anyio.abc import TaskGroup

from harness.types import CodecError, from_json, to_json
from kevolve_mcp import api
from kevolve_mcp.errors import Conflict, EvaluatorUnavailable, KEvolveError
from kevolve_mcp.executors.base import Progress, ProgressEvent
from kevolve_mcp.store import JobRecord

from .home import opens
from .job import JobKind, Parameters, encoded, of_another_version
from .shared import Shared

HEARTBEAT_S = 3.0
MAX_ATTEMPTS = 3  # a job during which this many processes died is not run again
# how often jobs of other processes are checked; also how often waiting callers see progress
POLL_S = 0.3
log = logging.getLogger(__name__)

WAITING = ProgressEvent("queue", "waiting", 0.0)


@dataclass
class _Local:
    """A job that this process runs."""

    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    over: anyio.Event = field(default_factory=anyio.Event)
    event: ProgressEvent = field(default_factory=lambda: ProgressEvent("queue", "starting", 0.0))
    cancelled: bool = False

    def tell(self, event: ProgressEvent) -> None:
        self.event = event


class JobRunner:
    """Starts, joins, watches and cancels jobs; takes over those whose process died, unless it is
    read-only."""

    def __init__(
        self,
        shared: Shared,
        group: TaskGroup,
        kinds: Iterable[JobKind[Any, Any]],
        *,
        looks_only: bool = False,
    ) -> None:
        self._shared = shared
        self._group = group
        self._kinds: dict[str, JobKind[Any, Any]] = {kind.kind: kind for kind in kinds}
        self._looks_only = looks_only
        self._local: dict[str, _Local] = {}
        self._starting = anyio.Lock()
        self._reclaiming = anyio.Lock()
        self._wake = anyio.Event()
        shared.on_store = lambda store: self._wake.set()

    @property
    def busy(self) -> bool:
        """Return whether this process runs a job."""
        return bool(self._local)

    async def start(self, kind: api.JobKind, parameters: Parameters) -> api.Job:
        """Start a job, or join an equal running one, so that a call repeated after a time-out costs
        nothing. Raises BudgetFull where a node does not fit the budget."""
        if self._looks_only:
            raise Conflict(
                "this service is read-only and starts no job",
                "Create one with Service(looks_only=False).",
            )
        store = await self._shared.store()
        async with self._shared.background.quiet(), self._starting:
            running = await self._shared.thread(
                store.jobs.list, states=("running", "lost"), limit=1000
            )
            job = next((j for j in running if self._is_same(j, kind, parameters)), None)
            if job is None:
                job = await self._shared.thread(
                    store.jobs.start, kind, parameters.session or None, encoded(parameters)
                )
                self._run(job)
        return await self.view(job.id)

    def _is_same(self, record: JobRecord, kind: api.JobKind, parameters: Parameters) -> bool:
        if record.kind != kind or record.cancel_requested:
            return False
        job = self._kinds[kind]
        try:
            return job.same(job.read(record)) == job.same(parameters)
        except Conflict:
            return False

    async def wait(self, job_id: str, wait_s: float, progress: Progress | None = None) -> api.Job:
        """Wait at most `wait_s` seconds. Cancelling the wait does not cancel the job. Raises
        NotFound."""
        deadline = time.monotonic() + wait_s
        job = await self._get(job_id)
        while not job.over and (left := deadline - time.monotonic()) > 0:
            local = self._local.get(job_id)
            event = local.event if local else _progress(job)
            if progress is not None:
                progress(event)
            if local is not None:
                with anyio.move_on_after(min(left, POLL_S)):
                    await local.over.wait()
                if not local.over.is_set():
                    continue
            else:
                await anyio.sleep(min(left, POLL_S))
                if job.state == "lost":
                    await self.reclaim()
            job = await self._get(job_id)
        return await self.view(job_id)

    async def wait_any(
        self, session: str, wait_s: float, progress: Progress | None = None
    ) -> api.Job | None:
        """Wait until the first of the session's running jobs ends; None when none runs."""
        running = [j.id for j in await self.list(session) if not j.over]
        if not running:
            return None
        deadline = time.monotonic() + wait_s
        while True:
            for job_id in running:
                job = await self._get(job_id)
                if job.over:
                    return await self.view(job_id)
            if time.monotonic() >= deadline:
                return await self.view(running[-1])
            await self.wait(running[-1], min(POLL_S, deadline - time.monotonic()), progress)

    async def cancel(self, job_ids: list[str]) -> tuple[api.Job, ...]:
        """Kill the workers of these jobs, wherever they run; return when they have ended, or after
        some seconds. Raises NotFound."""
        store = await self._shared.store()
        for job_id in job_ids:
            job = await self._shared.thread(store.jobs.request_cancel, job_id)
            local = self._local.get(job.id)
            if local is not None and not job.over:
                local.cancelled = True
                local.scope.cancel()
        return tuple([await self.wait(job_id, 3 * HEARTBEAT_S) for job_id in job_ids])

    async def list(self, session: str = "") -> tuple[JobRecord, ...]:
        """Return jobs, the newest first; an open job belongs to the session that it is opening."""
        store = await self._shared.store()
        jobs = await self._shared.thread(lambda: [store.jobs.seen(j) for j in store.jobs.list()])
        if not session:
            return tuple(jobs)
        own = await self._shared.thread(
            lambda: [store.jobs.seen(j) for j in store.jobs.list(session=session)]
        )
        opening = [j for j in jobs if j.session is None and opens(j) == session]
        return tuple(sorted((*own, *opening), key=lambda j: -int(j.id[1:])))

    async def views(self, session: str = "") -> tuple[api.Job, ...]:
        """Return views of the jobs of `list`, without results."""
        return tuple([self._shown(job) for job in await self.list(session)])

    async def view(self, job_id: str) -> api.Job:
        """Return the view of a job with its result, if it has one. Raises NotFound."""
        job = await self._get(job_id)
        result = self._kind(job).shown(job) if job.state == "done" else None
        eta = None if job.over else await self._eta(job)
        left = await self._shared.left(_session(job))
        return self._shown(job, eta_s=eta, result=result, left=left)

    def _kind(self, record: JobRecord) -> JobKind[Any, Any]:
        """Raises Conflict for one of another version."""
        if (kind := self._kinds.get(record.kind)) is None:
            raise of_another_version(record, f"this one has {', '.join(self._kinds)}")
        return kind

    async def reclaim(self) -> None:
        """Run the jobs of dead processes again; of several servers that try, exactly one gets each
        job. A read-only service leaves them to others, since it would end before them."""
        if self._looks_only:
            return
        store = await self._shared.store()
        async with self._reclaiming:
            for lost in await self._shared.thread(store.jobs.reclaim_lost):
                try:
                    job = await self._shared.thread(store.jobs.claim, lost.id)
                except Conflict:
                    continue  # another server took it
                async with self._shared.background.quiet():
                    await self._take_over(job)

    async def _take_over(self, job: JobRecord) -> None:
        """Run it again, unless it was cancelled, its process died too often, or another version of
        KEvolve wrote it."""
        if job.cancel_requested:
            await self._end(job, "cancelled", error=_cancelled(job))
        elif job.attempts > MAX_ATTEMPTS:
            message = (
                f"job {job.id} was started {job.attempts - 1} times and its process died each time"
            )
            await self._end(
                job,
                "failed",
                error=EvaluatorUnavailable(
                    message, "Check the server's log, then start it anew."
                ).as_dict(),
            )
        else:
            log.warning("job %s of a dead process is run again", job.id)
            self._run(job)

    async def tend(self) -> None:
        """Handle heartbeats, cancellations from other processes and jobs of dead processes, once
        the store is open."""
        await self._wake.wait()
        while True:
            await self.reclaim()
            await anyio.sleep(HEARTBEAT_S)
            for job_id, local in list(self._local.items()):
                await self._beat(job_id, local)

    async def _beat(self, job_id: str, local: _Local) -> None:
        store = await self._shared.store()
        try:
            job = await self._shared.thread(store.jobs.heartbeat, job_id, encoded(local.event))
        except Conflict:
            # considered dead and taken over: the work of this process must not count any more
            if job_id in self._local:
                local.scope.cancel()
            return
        if job.cancel_requested:
            local.cancelled = True
            local.scope.cancel()

    def _run(self, job: JobRecord) -> None:
        self._local[job.id] = local = _Local()
        self._group.start_soon(self._perform, job, local)

    async def _perform(self, job: JobRecord, local: _Local) -> None:
        """Run a job to its end. When the service closes, the row stays "running": the next server
        finds its owner dead and goes on."""
        try:
            with local.scope:
                await self._attempt(job, local)
            if local.cancelled:
                with anyio.CancelScope(shield=True):
                    await self._end(job, "cancelled", error=_cancelled(job))
        finally:
            self._local.pop(job.id, None)
            local.over.set()
            if not self.busy:  # until its author has read the answer
                self._shared.background.resume(_session(job))

    async def _attempt(self, job: JobRecord, local: _Local) -> None:
        try:
            kind = self._kind(job)
            result = await kind.run(kind.read(job), local.tell)
        except KEvolveError as error:
            await self._end(job, "failed", error=error.as_dict())
        # the caller must learn of any error, and the other jobs must go on
        except Exception as error:
            log.exception("job %s failed", job.id)
            hint = "This is a bug in the server; its log has the traceback."
            failure = api.Error("internal", f"{type(error).__name__}: {error}", hint)
            await self._end(job, "failed", error=to_json(failure))
        else:
            with anyio.CancelScope(shield=True):  # a cancellation no longer matters
                await self._end(job, "done", result=result)
                local.cancelled = False

    async def _end(
        self,
        job: JobRecord,
        state: Literal["done", "failed", "cancelled"],
        *,
        result: object = None,
        error: dict[str, Any] | None = None,
    ) -> None:
        store = await self._shared.store()
        # a job that opened a session belongs to it from now on
        session = result.session.id if isinstance(result, api.Opened) else None
        data = None if result is None else encoded(result)
        try:
            await self._shared.thread(
                store.jobs.finish, job.id, state, result=data, error=error, session=session
            )
        except Conflict:
            log.warning("job %s was taken over by another process; its end here is dropped", job.id)

    async def _get(self, job_id: str) -> JobRecord:
        store = await self._shared.store()
        return await self._shared.thread(lambda: store.jobs.seen(store.jobs.get(job_id)))

    async def _eta(self, job: JobRecord) -> float:
        """The seconds left: the median duration of recent jobs of the kind, times the number of
        jobs before it, minus the time passed."""
        store = await self._shared.store()
        done = await self._shared.thread(store.jobs.list, states=("done",))
        took = [
            j.finished - j.created for j in done if j.kind == job.kind and j.finished is not None
        ][:10]
        usual = statistics.median(took) if took else self._usual_s(job)
        return max(1.0, usual * (1 + self._before(job)) - (time.time() - job.created))

    def _usual_s(self, record: JobRecord) -> float:
        kind = self._kinds.get(record.kind)
        return kind.usual_s if kind else 0.0

    def _before(self, job: JobRecord) -> int:
        ids = list(self._local)
        return ids.index(job.id) if job.id in ids else 0

    def _shown(
        self,
        job: JobRecord,
        *,
        eta_s: float | None = None,
        result: Any = None,
        left: api.Left | None = None,
    ) -> api.Job:
        local = self._local.get(job.id)
        return api.job(
            job,
            _session(job),
            local.event if local else _progress(job),
            queue=self._before(job),
            eta_s=eta_s,
            result=result,
            left=left,
        )


def _session(job: JobRecord) -> str:
    """The session it belongs to, also while it is still being opened."""
    return job.session or opens(job)


def _cancelled(job: JobRecord) -> dict[str, Any]:
    hint = "Repeat the call to start it anew."
    return encoded(api.Error("cancelled", f"job {job.id} was cancelled", hint, retryable=True))


def _progress(job: JobRecord) -> ProgressEvent:
    try:
        return from_json(ProgressEvent, job.progress)
    except CodecError:  # no progress yet
        return WAITING
