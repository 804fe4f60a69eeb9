"""Answers of jobs. Waiting is bounded: every slow tool ends here, with the result or with a job id.
A result reads the same whether its own tool or job_wait returns it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import anyio
from mcp.server.mcpserver import Context
from mcp.types import CallToolResult

from harness.types import to_json
from kevolve_mcp import api
from kevolve_mcp.errors import KEvolveError
from kevolve_mcp.executors.base import Progress, ProgressEvent

from .context import app, service
from .results import EvaluationReply, FinishReply, JobsReply, Phrase, SessionReply, answer, said
from .wording import comparisons, kernels, rest, sessions

T = TypeVar("T")
FIRST_AFTER = 0.2  # seconds: a job that ends sooner needs no note
REPORT_EVERY = 3.0  # seconds between progress notes; clients' idle timers start at 30 s


class Failed(KEvolveError):
    """A failed job, as the error that the caller would have got without a job in between."""

    def __init__(self, error: api.Error, job_id: str) -> None:
        super().__init__(error.message, error.hint, *error.actions)
        self.code = error.code  # type: ignore[misc]
        self.retryable = error.retryable  # type: ignore[misc]
        self.job_id = job_id


class Notes:
    """The latest progress of a job, sent to the client every few seconds with an increasing
    number."""

    def __init__(self) -> None:
        self.event = ProgressEvent("queue", "waiting", 0.0)

    def __call__(self, event: ProgressEvent) -> None:
        self.event = event

    async def report(self, ctx: Context[Any]) -> None:
        """Send notes until cancelled."""
        sent = 0.0
        await anyio.sleep(FIRST_AFTER)
        while True:
            sent = min(max(self.event.fraction, sent + 0.001), 1.0)
            await ctx.report_progress(sent, 1.0, f"{self.event.stage}: {self.event.message}")
            await anyio.sleep(REPORT_EVERY)


async def wait(ctx: Context[Any], job: api.Job, wait_s: float) -> api.Job:
    """Wait at most `wait_s` (capped by the settings) and return the job, which goes on whatever
    happens to this call."""
    if not job.id or job.state != "running":
        return job
    limit = min(wait_s, app(ctx).settings.max_wait_s)
    running = await service(ctx)
    return await with_progress(ctx, lambda progress: running.wait(job.id, limit, progress=progress))


async def with_progress(ctx: Context[Any], call: Callable[[Progress], Awaitable[T]]) -> T:
    """Return the result of `call`, sending its progress to the client while it runs."""
    notes = Notes()
    failed: Exception | None = None
    async with anyio.create_task_group() as group:
        group.start_soon(notes.report, ctx)
        try:
            result = await call(notes)
        except Exception as error:  # raised outside the task group, which would wrap it
            failed = error
        group.cancel_scope.cancel()
    if failed is not None:
        raise failed
    return result


def checked(job: api.Job) -> api.Job:
    """Return the job. Raises Failed if it failed, with its error."""
    if job.state == "failed":
        raise Failed(
            job.error or api.Error("internal", f"job {job.id} failed without a reason"), job.id
        )
    return job


def open_answer(job: api.Job) -> CallToolResult:
    phrase = phrased(job)
    session = job.result.session if isinstance(job.result, api.Opened) else None
    joined = isinstance(job.result, api.Opened) and job.result.joined
    return answer(
        phrase,
        SessionReply(
            **_common(job, phrase), session=to_json(session) if session else None, joined=joined
        ),
    )


def evaluation_answer(job: api.Job) -> CallToolResult:
    phrase = phrased(job)
    return answer(phrase, EvaluationReply(**_common(job, phrase), **_evaluated(job)))


def finish_answer(job: api.Job) -> CallToolResult:
    phrase = phrased(job)
    result = job.result if isinstance(job.result, api.Finished) else None
    best = (result.measured or result.confirmed) if result else None
    reply = FinishReply(
        **_common(job, phrase),
        package=result.package if result else "",
        fitness=best.fitness if best else None,
        result=to_json(result) if result else None,
    )
    return answer(phrase, reply)


def job_answer(job: api.Job) -> CallToolResult:
    """Return the answer of job_wait for any kind of job."""
    phrase = phrased(job)
    result = to_json(job.result) if job.result is not None else None
    return answer(phrase, JobsReply(**_common(job, phrase), kind=job.kind, result=result))


def phrased(job: api.Job) -> Phrase:
    """Return the job's result in words, or its progress."""
    if isinstance(job.result, api.Opened):
        return sessions.opened(job.result)
    if isinstance(job.result, api.Evaluated):
        return kernels.evaluated(job.result)
    if isinstance(job.result, api.Tuned):
        return comparisons.tuned(job.result)
    if isinstance(job.result, api.Compared):
        return comparisons.compared(job.result)
    if isinstance(job.result, api.Finished):
        return sessions.finished(job.result)
    return rest.running(job)


def _common(job: api.Job, phrase: Phrase) -> dict[str, Any]:
    return {
        **said(phrase, job.left),
        "state": job.state,
        "job_id": job.id,
        "session_id": job.session_id,
        "eta_s": job.eta_s,
    }


def _evaluated(job: api.Job) -> dict[str, Any]:
    result = job.result
    if isinstance(result, api.Compared | api.Tuned):
        return {"result": to_json(result)}
    if not isinstance(result, api.Evaluated):
        return {}
    return {
        "node_id": result.node.id if result.node else "",
        "evaluation_id": result.evaluation.id,
        "status": result.evaluation.status,
        "fitness": result.evaluation.fitness,
        "result": to_json(result),
    }
