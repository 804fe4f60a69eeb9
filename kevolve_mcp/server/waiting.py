"""Bounded waiting: every slow tool ends here, with the result or with a job id."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import anyio
from mcp.server.mcpserver import Context

from kevolve_mcp import api
from kevolve_mcp.errors import KEvolveError
from kevolve_mcp.executors.base import Progress, ProgressEvent

from .context import app, service

T = TypeVar("T")
FIRST_AFTER = 0.2  # seconds: what ends sooner needs no note
REPORT_EVERY = 3.0  # seconds between progress notes; clients' idle timers start at 30 s


class Failed(KEvolveError):
    """A job that failed, as the error that the caller would have got without waiting in between."""

    def __init__(self, error: api.Error, job_id: str) -> None:
        super().__init__(error.message, error.hint, *error.actions)
        self.code = error.code  # type: ignore[misc]
        self.retryable = error.retryable  # type: ignore[misc]
        self.job_id = job_id


class Notes:
    """The latest progress of a job, sent to the client every few seconds with a number that only
    grows."""

    def __init__(self) -> None:
        self.event = ProgressEvent("queue", "waiting", 0.0)

    def __call__(self, event: ProgressEvent) -> None:
        self.event = event

    async def report(self, ctx: Context[Any]) -> None:
        """Runs until it is cancelled."""
        sent = 0.0
        await anyio.sleep(FIRST_AFTER)
        while True:
            sent = min(max(self.event.fraction, sent + 0.001), 1.0)
            await ctx.report_progress(sent, 1.0, f"{self.event.stage}: {self.event.message}")
            await anyio.sleep(REPORT_EVERY)


async def wait(ctx: Context[Any], job: api.Job, wait_s: float) -> api.Job:
    """At most `wait_s` (capped by the settings); the job goes on whatever happens to this call."""
    if not job.id or job.state != "running":
        return job
    limit = min(wait_s, app(ctx).settings.max_wait_s)
    running = await service(ctx)
    return await told(ctx, lambda progress: running.wait(job.id, limit, progress=progress))


async def told(ctx: Context[Any], call: Callable[[Progress], Awaitable[T]]) -> T:
    """The result of `call`, with its progress sent to the client while it lasts."""
    notes = Notes()
    failed: Exception | None = None
    async with anyio.create_task_group() as group:
        group.start_soon(notes.report, ctx)
        try:
            result = await call(notes)
        except Exception as error:  # carried out of the group, which would wrap it
            failed = error
        group.cancel_scope.cancel()
    if failed is not None:
        raise failed
    return result


def checked(job: api.Job) -> api.Job:
    """The job unless it failed. Raises Failed, which is the error that it failed with."""
    if job.state == "failed":
        raise Failed(
            job.error or api.Error("internal", f"job {job.id} failed without a reason"), job.id
        )
    return job
