"""job_wait, job_cancel."""

from __future__ import annotations

from typing import Annotated, Any

from mcp.server.mcpserver import Context
from mcp.types import CallToolResult
from pydantic import Field

from harness.types import to_json
from kevolve_mcp import api
from kevolve_mcp.actions import Action
from kevolve_mcp.errors import UsageError

from .. import arguments as a
from ..context import app, service
from ..jobs import checked, job_answer, wait, with_progress
from ..results import JobsReply, Phrase, answer, said
from ..wording import rest

JobId = Annotated[str, Field(description='e.g. "j12"')]


async def job_wait(
    ctx: Context[Any],
    job_id: JobId = "",
    session_id: Annotated[
        str, Field(description="Instead: the first of this session's jobs to end")
    ] = "",
    wait_s: a.Wait = 20,
) -> Annotated[CallToolResult, JobsReply]:
    """Wait a bounded time for a job and answer with its result, or with its progress ("running" is
    not an error: call again). Without an id: list the jobs. A result can be read any number of
    times."""
    if job_id:
        job = await (await service(ctx)).job(job_id)
        return job_answer(checked(await wait(ctx, job, wait_s)))
    if session_id:
        limit = min(wait_s, app(ctx).settings.max_wait_s)
        running = await service(ctx)
        ended = await with_progress(
            ctx, lambda progress: running.wait_any(session_id, limit, progress=progress)
        )
        if ended is not None:
            return job_answer(checked(ended))
    jobs = await (await service(ctx)).jobs(session_id)
    phrase = rest.listed(jobs)
    return _list(phrase, jobs)


async def job_cancel(
    ctx: Context[Any],
    job_id: JobId = "",
    session_id: Annotated[str, Field(description="Instead: all running jobs of this session")] = "",
) -> Annotated[CallToolResult, JobsReply]:
    """Stop running jobs and kill their workers. Finished results stay; a cancelled candidate leaves
    no node."""
    if not job_id and not session_id:
        raise UsageError(
            "job_cancel needs job_id or session_id", "", Action("list_jobs", "lists the jobs")
        )
    jobs = await (await service(ctx)).cancel(job_id=job_id, session_id=session_id)
    return _list(rest.cancelled(jobs), jobs)


def _list(phrase: Phrase, jobs: tuple[api.Job, ...]) -> CallToolResult:
    objects = []
    for job in jobs:
        data = to_json(job)
        data.pop("result")
        objects.append(data)
    state = jobs[0].state if len(jobs) == 1 else "done"
    return answer(phrase, JobsReply(**said(phrase), state=state, jobs=objects))
