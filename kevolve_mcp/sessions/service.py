"""The façade over everything below: ask and tell, background jobs, views."""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

import anyio

from kevolve_mcp import api
from kevolve_mcp.executors.base import Executor, Progress
from kevolve_mcp.settings import Settings

from . import comparing, confirming, opening, telling, tuning
from .asking import Asking
from .background import Background
from .describing import Describing
from .evaluation import Evaluating
from .finishing import Finishing
from .jobs import JobRunner
from .knowledge import Knowledge
from .looking import Looking
from .opening import Opening
from .pool import ExecutorFactory
from .shared import Shared
from .skills.proposing import Proposing
from .skills.reviewing import Reviewing


class Service(
    Describing,
    Opening,
    Asking,
    Evaluating,
    Finishing,
    Looking,
    Knowledge,
    Proposing,
    Reviewing,
):
    """Sessions on one home. An async context manager: jobs live inside it.

    Concurrency: every method may be awaited by many tasks; several services, in one process or in
    many, may share a home. Cancellation: cancelling a call never cancels a job; `cancel` does, and
    kills the worker. Failure: KEvolveError and KnowledgeError with a hint, nothing else on purpose.
    Resume: leaving the context (or dying) leaves running jobs as they are in the store; the next
    service on this home runs them again, and finished work is never lost. Slow methods return an
    api.Job: with its result where the store knew the answer, else running, to be passed to `wait`.
    looks_only: for short read-only use: it runs no job, neither a new one nor one that a dead
    process left.
    """

    def __init__(
        self,
        settings: Settings | None = None,
        executors: ExecutorFactory | None = None,
        *,
        looks_only: bool = False,
    ) -> None:
        self.settings = settings or Settings()
        self._looks_only = looks_only
        self._shared = Shared(self.settings, executors or self._local_executor)
        self._exit = AsyncExitStack()

    async def __aenter__(self) -> Self:
        self._group = await self._exit.enter_async_context(anyio.create_task_group())
        self._shared.background = Background(self._shared, self._group, looks_only=self._looks_only)
        self._shared.jobs = JobRunner(
            self._shared,
            self._group,
            (
                opening.OpenJob(self._shared),
                *telling.measure_jobs(self._shared),
                telling.SubmitJob(self._shared),
                comparing.CompareJob(self._shared),
                tuning.TuneJob(self._shared),
                confirming.FinishJob(self._shared),
            ),
            looks_only=self._looks_only,
        )
        self._group.start_soon(self._shared.jobs.tend)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._group.cancel_scope.cancel()
        try:
            # the caller's exception is raised unchanged: a group would wrap it
            await self._exit.__aexit__(None, None, None)
        finally:
            with anyio.CancelScope(shield=True):
                await self._shared.close()

    def executor(self) -> Executor:
        """Return the executor used where no interpreter is named. The service closes it."""
        return self._shared.pool.get()

    async def job(self, job_id: str) -> api.Job:
        """Return the state of a job, with its result when it is done."""
        await self._shared.store()
        return await self._shared.jobs.view(job_id)

    async def wait(
        self, job_id: str, wait_s: float, *, progress: Progress | None = None
    ) -> api.Job:
        """Wait at most `wait_s` seconds for a job and return its state."""
        return await self._shared.jobs.wait(job_id, wait_s, progress)

    async def wait_any(
        self, session_id: str, wait_s: float, *, progress: Progress | None = None
    ) -> api.Job | None:
        """Wait for the first of the session's running jobs to end; None when none runs."""
        await self._check_opened(session_id, opening_is_fine=True)
        return await self._shared.jobs.wait_any(session_id, wait_s, progress)

    async def cancel(self, *, job_id: str = "", session_id: str = "") -> tuple[api.Job, ...]:
        """Stop the job, or all running jobs of the session and, until its next ask, its parameter
        search, and kill their workers."""
        if job_id:
            return await self._shared.jobs.cancel([job_id])
        await self._check_opened(session_id, opening_is_fine=True)
        await self._shared.background.stop(session_id)
        running = [j.id for j in await self._shared.jobs.list(session_id) if not j.over]
        return await self._shared.jobs.cancel(running)

    async def jobs(self, session_id: str = "") -> tuple[api.Job, ...]:
        """Return jobs without results, the newest first."""
        return await self._shared.jobs.views(session_id)

    def _local_executor(self, python: str, near: Path | None) -> Executor:
        """This machine's judge, imported when first needed."""
        from kevolve_mcp.executors.local import LocalExecutor

        return LocalExecutor(
            python or None, cache=self.settings.cache, near=near, configured=self.settings.python
        )
