"""Background jobs: work that outlives the call that started it, and, through the store, the process
that did it."""

from __future__ import annotations

import logging
import statistics
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import anyio
from anyio.abc import TaskGroup

from harness.types import from_json, to_json
from kevolve_mcp.errors import Conflict, EvaluatorUnavailable, KEvolveError
from kevolve_mcp.executors.base import Progress, ProgressEvent
from kevolve_mcp.store import Job

from .shared import Shared
from .types import Compared, ErrorView, Evaluated, Finished, JobKind, JobView, Opened, Tuned

HEARTBEAT_S = 3.0
MAX_ATTEMPTS = 3  # a job that has ended so many processes is not given a further one
# how often a job of another process is looked at; also how often waiting callers see progress
POLL_S = 0.3
USUAL_S = {
    "open": 30.0,
    "compile": 3.0,
    "check": 8.0,
    "profile": 20.0,
    "ablation": 20.0,
    "submit": 20.0,
    "compare": 30.0,
    "tune": 120.0,
    "finish": 60.0,
}  # until measured
log = logging.getLogger(__name__)

Result = Opened | Evaluated | Compared | Tuned | Finished


@dataclass(frozen=True)
class Handler:
    """run: does the job and returns ids, enough for `show`. show: builds the result from the store,
    in any process.

    run must be repeatable: a job whose process died is run again by another one.
    """

    run: Callable[[Job, Progress], Awaitable[dict[str, Any]]]
    show: Callable[[Job], Awaitable[Result]]


@dataclass
class _Local:
    """A job that this process runs."""

    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    over: anyio.Event = field(default_factory=anyio.Event)
    event: ProgressEvent = field(default_factory=lambda: ProgressEvent("queue", "starting", 0.0))
    cancelled: bool = False

    def tell(self, event: ProgressEvent) -> None:
        self.event = event


class Jobs:
    """Starts, joins, watches and cancels jobs; takes over those whose process died, unless it only
    looks."""

    def __init__(
        self,
        shared: Shared,
        group: TaskGroup,
        handlers: dict[str, Handler],
        *,
        looks_only: bool = False,
    ) -> None:
        self._shared = shared
        self._group = group
        self._handlers = handlers
        self._looks_only = looks_only
        self._local: dict[str, _Local] = {}
        self._starting = anyio.Lock()
        self._reclaiming = anyio.Lock()
        self._wake = anyio.Event()
        shared.on_store = lambda store: self._wake.set()

    @property
    def busy(self) -> bool:
        """Whether this process runs a job."""
        return bool(self._local)

    async def start(
        self, kind: JobKind, session: str | None, payload: dict[str, Any], same: str
    ) -> JobView:
        """Start it, or join the running one with equal `same`: a call that is repeated after a
        time-out costs nothing."""
        if self._looks_only:
            raise Conflict(
                "this service only looks: it starts no job",
                "Make one that works: Service(looks_only=False).",
            )
        store = await self._shared.store()
        async with self._shared.background.quiet(), self._starting:
            running = await self._shared.thread(
                store.jobs.list, states=("running", "lost"), limit=1000
            )
            job = next(
                (
                    j
                    for j in running
                    if j.kind == kind and j.payload.get("same") == same and not j.cancel_requested
                ),
                None,
            )
            if job is None:
                job = await self._shared.thread(
                    store.jobs.start, kind, session, {**payload, "same": same}
                )
                self._run(job)
        return await self.view(job.id)

    async def wait(self, job_id: str, wait_s: float, progress: Progress | None = None) -> JobView:
        """At most `wait_s` seconds. Cancelling the wait leaves the job alone. Raises NotFound."""
        deadline = time.monotonic() + wait_s
        job = await self._get(job_id)
        while not job.over and (left := deadline - time.monotonic()) > 0:
            local = self._local.get(job_id)
            event = local.event if local else _stored(job)
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
    ) -> JobView | None:
        """Until the first of the session's running jobs ends; None when none runs."""
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

    async def cancel(self, job_ids: list[str]) -> tuple[JobView, ...]:
        """Kill the workers of these jobs, wherever they run. Returns when they have ended, or after
        some seconds. Raises NotFound."""
        store = await self._shared.store()
        for job_id in job_ids:
            job = await self._shared.thread(store.jobs.request_cancel, job_id)
            local = self._local.get(job.id)
            if local is not None and not job.over:
                local.cancelled = True
                local.scope.cancel()
        return tuple([await self.wait(job_id, 3 * HEARTBEAT_S) for job_id in job_ids])

    async def list(self, session: str = "") -> tuple[Job, ...]:
        """The newest first; an open job belongs to the session that it is opening."""
        store = await self._shared.store()
        jobs = await self._shared.thread(lambda: [store.jobs.seen(j) for j in store.jobs.list()])
        if not session:
            return tuple(jobs)
        own = await self._shared.thread(
            lambda: [store.jobs.seen(j) for j in store.jobs.list(session=session)]
        )
        opening = [j for j in jobs if j.session is None and session_of(j) == session]
        return tuple(sorted((*own, *opening), key=lambda j: -int(j.id[1:])))

    async def views(self, session: str = "") -> tuple[JobView, ...]:
        """As `list`, without results."""
        return tuple([self._plain(job, None) for job in await self.list(session)])

    async def view(self, job_id: str) -> JobView:
        """With its result, where it has one. Raises NotFound."""
        job = await self._get(job_id)
        result = await self._handlers[job.kind].show(job) if job.state == "done" else None
        eta = None if job.over else await self._eta(job)
        return self._plain(job, eta, result)

    async def reclaim(self) -> None:
        """Run the jobs of dead processes again; of several servers that try, each job goes to
        exactly one. Who only looks leaves them to those who work: what it began would end with
        it."""
        if self._looks_only:
            return
        store = await self._shared.store()
        async with self._reclaiming:
            for lost in await self._shared.thread(store.jobs.reclaim_lost):
                try:
                    job = await self._shared.thread(store.jobs.claim, lost.id)
                except Conflict:
                    continue  # another server was faster
                async with self._shared.background.quiet():
                    await self._take_over(job)

    async def _take_over(self, job: Job) -> None:
        """Run it again, unless somebody wanted it stopped or it has ended too many processes."""
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
                    message, "Look into the server's log, then start it anew."
                ).as_dict(),
            )
        else:
            log.warning("job %s of a dead process is run again", job.id)
            self._run(job)

    async def tend(self) -> None:
        """Heartbeats, cancellations from other processes, jobs of dead ones; from the moment the
        store is open."""
        await self._wake.wait()
        while True:
            await self.reclaim()
            await anyio.sleep(HEARTBEAT_S)
            for job_id, local in list(self._local.items()):
                await self._beat(job_id, local)

    async def _beat(self, job_id: str, local: _Local) -> None:
        store = await self._shared.store()
        event = local.event
        progress = {"stage": event.stage, "message": event.message, "fraction": event.fraction}
        try:
            job = await self._shared.thread(store.jobs.heartbeat, job_id, progress)
        except Conflict:
            # given up for dead and taken over: what this process still does must not count
            if job_id in self._local:
                local.scope.cancel()
            return
        if job.cancel_requested:
            local.cancelled = True
            local.scope.cancel()

    def _run(self, job: Job) -> None:
        self._local[job.id] = local = _Local()
        self._group.start_soon(self._perform, job, local)

    async def _perform(self, job: Job, local: _Local) -> None:
        """Run to an end. When the service closes, the row stays "running": the next server finds
        its owner dead and goes on."""
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
                self._shared.background.resume(session_of(job))

    async def _attempt(self, job: Job, local: _Local) -> None:
        try:
            result = await self._handlers[job.kind].run(job, local.tell)
        except KEvolveError as error:
            await self._end(job, "failed", error=error.as_dict())
        # the caller must learn of it, whatever it is, and the other jobs must go on
        except Exception as error:
            log.exception("job %s failed", job.id)
            hint = "This is a fault of the server; its log has the trace."
            told = ErrorView("internal", f"{type(error).__name__}: {error}", hint)
            await self._end(job, "failed", error=to_json(told))
        else:
            with anyio.CancelScope(shield=True):  # done is done, even if a cancellation arrives now
                await self._end(job, "done", result=result)
                local.cancelled = False

    async def _end(
        self,
        job: Job,
        state: Any,
        *,
        result: dict[str, Any] | None = None,
        error: dict[str, Any] | None = None,
    ) -> None:
        store = await self._shared.store()
        try:
            await self._shared.thread(store.jobs.finish, job.id, state, result=result, error=error)
        except Conflict:
            log.warning("job %s was taken over by another process; its end here is dropped", job.id)

    async def _get(self, job_id: str) -> Job:
        store = await self._shared.store()
        return await self._shared.thread(lambda: store.jobs.seen(store.jobs.get(job_id)))

    async def _eta(self, job: Job) -> float:
        """Seconds left: the median of the last jobs of the kind, times those before it, less what
        has passed."""
        store = await self._shared.store()
        done = await self._shared.thread(store.jobs.list, states=("done",))
        took = [
            j.finished - j.created
            for j in done
            if _sort(j) == _sort(job) and j.finished is not None
        ][:10]
        usual = statistics.median(took) if took else USUAL_S[_sort(job)]
        return max(1.0, usual * (1 + self._before(job)) - (time.time() - job.created))

    def _before(self, job: Job) -> int:
        ids = list(self._local)
        return ids.index(job.id) if job.id in ids else 0

    def _plain(self, job: Job, eta: float | None, result: Result | None = None) -> JobView:
        local = self._local.get(job.id)
        event = local.event if local else _stored(job)
        return JobView(
            id=job.id,
            kind=_kind(job),
            state="running" if job.state == "lost" and result is None else job.state,
            session_id=session_of(job),
            stage=event.stage,
            message="its process died; it will be run again"
            if job.state == "lost"
            else event.message,
            fraction=event.fraction,
            eta_s=eta,
            queue=self._before(job),
            created=job.created,
            finished=job.finished,
            result=result,
            error=from_json(ErrorView, job.error) if job.error else None,
        )


def _cancelled(job: Job) -> dict[str, Any]:
    hint = "The same call starts it anew."
    cancelled: dict[str, Any] = to_json(
        ErrorView("cancelled", f"job {job.id} was cancelled", hint, retryable=True)
    )
    return cancelled


def session_of(job: Job) -> str:
    """The session it belongs to, also while it is still being opened."""
    if job.result is not None and "session" in job.result:
        return str(job.result["session"])
    return job.session or str(job.payload.get("session") or "")


def _kind(job: Job) -> JobKind:
    assert job.kind in ("open", "evaluate", "compare", "tune", "finish")
    return job.kind  # type: ignore[return-value]


def _sort(job: Job) -> str:
    return str(job.payload.get("depth", job.kind))


def _stored(job: Job) -> ProgressEvent:
    p = job.progress
    return ProgressEvent(
        str(p.get("stage", "queue")),
        str(p.get("message", "waiting")),
        float(p.get("fraction", 0.0)),
    )
