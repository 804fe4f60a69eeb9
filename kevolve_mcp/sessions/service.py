"""The one façade over everything below: ask and tell, background jobs, views."""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

import anyio

from harness.types import Budget
from kevolve_mcp.actions import Say, plainly
from kevolve_mcp.executors.base import Executor, Progress
from kevolve_mcp.settings import Settings
from kevolve_mcp.store import SkillState
from knowledge import Library

from . import (
    asking,
    comparing,
    describing,
    experience,
    finishing,
    looking,
    opening,
    reviewing,
    skills,
    telling,
    tuning,
)
from .background import Background
from .jobs import Jobs
from .pool import ExecutorFactory
from .shared import Shared
from .skill_types import SkillCounts, SkillDetail, SkillRequest, SkillView
from .types import (
    AskBatch,
    CompareRequest,
    FinishRequest,
    JobView,
    KernelRequest,
    KnowledgeHit,
    KnowledgeHits,
    KnowledgePage,
    MachineView,
    NextRequest,
    NodeView,
    SessionSpec,
    SimilarView,
    SubmitRequest,
    Text,
    TreeView,
)

PAGE_CHARACTERS = 12_000


class Service:
    """Sessions on one home. An async context manager: jobs live inside it.

    Concurrency: every method may be awaited by many tasks; several services, in one process or in
    many, may share a home. Cancellation: cancelling a call never cancels a job; `cancel` does, and
    kills the worker. Failure: KEvolveError and KnowledgeError with a hint, nothing else on purpose.
    Resume: leaving the context (or dying) leaves running jobs as they are in the store; the next
    service on this home runs them again, and nothing that was finished is lost. Slow methods return
    a JobView: with its result where the store knew the answer, else running, to be passed to
    `wait`. looks_only: for whoever reads and goes: runs no job, neither a new one nor one that a
    dead process left.
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
        self._shared.jobs = Jobs(
            self._shared,
            self._group,
            (
                opening.OpenJob(self._shared),
                *telling.measure_jobs(self._shared),
                telling.SubmitJob(self._shared),
                comparing.CompareJob(self._shared),
                tuning.TuneJob(self._shared),
                finishing.FinishJob(self._shared),
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
            # the caller's exception is the caller's: a group would wrap it
            await self._exit.__aexit__(None, None, None)
        finally:
            with anyio.CancelScope(shield=True):
                await self._shared.close()

    async def describe(self, target: str = "", *, python: str = "") -> MachineView:
        """What can be evaluated here, why not the rest, and how to get it."""
        return await describing.describe(self._shared, target, python)

    async def open(self, spec: SessionSpec) -> JobView:
        """A session for the task; its id is in the answer at once. Joins an equal open session
        unless `new`."""
        return await opening.open_session(self._shared, spec)

    async def next(
        self,
        session_id: str,
        *,
        count: int = 1,
        ask_id: str = "",
        fresh: bool = False,
        max_tokens: int | None = None,
        author: str = "",
        budget: Budget | None = None,
        say: Say = plainly,
    ) -> AskBatch:
        """What to write next, or why the search has ended. See NextRequest for the arguments."""
        await self._check_opened(session_id)
        return await asking.next_asks(
            self._shared,
            NextRequest(session_id, ask_id, count, fresh, max_tokens, budget, author, say),
        )

    async def similar(
        self,
        task: Text,
        *,
        target: str = "cpu",
        language: str = "",
        python: str = "",
        limit: int = experience.NAMED,
        progress: Progress | None = None,
    ) -> tuple[str, tuple[SimilarView, ...]]:
        """The task's name, and what earlier sessions found for tasks like it; the task is opened
        for that."""
        return await experience.similar(
            self._shared, task, target, language, python, limit, progress
        )

    async def compile(self, request: KernelRequest) -> JobView:
        """Build only."""
        return await telling.kernel(self._shared, request, "compile")

    async def check(self, request: KernelRequest) -> JobView:
        """Build and verify; no node."""
        return await telling.kernel(self._shared, request, "check")

    async def profile(self, request: KernelRequest) -> JobView:
        """All stages; no node."""
        return await telling.kernel(self._shared, request, "profile")

    async def ablate(self, request: KernelRequest) -> JobView:
        """Timed although it is not correct; no node, no fitness."""
        return await telling.kernel(self._shared, request, "ablation")

    async def tune(self, request: KernelRequest, count: int) -> JobView:
        """So many choices of a file's TUNABLES evaluated; no node."""
        return await tuning.tune(self._shared, request, count)

    async def compare(self, request: CompareRequest) -> JobView:
        """Kernels against each other in the same rounds; no node."""
        if request.session_id:
            await self._check_opened(request.session_id)
        return await comparing.compare(self._shared, request)

    async def submit(self, request: SubmitRequest) -> JobView:
        """Tell: the evaluation recorded as a node."""
        await self._check_opened(request.session_id)
        return await telling.submit(self._shared, request)

    async def finish(self, request: FinishRequest) -> JobView:
        """Re-validate, export, measure the package, propose skills; or discard."""
        await self._check_opened(request.session_id)
        return await finishing.finish(self._shared, request)

    async def approve(self, session_id: str, node_id: str, author: str, note: str = "") -> NodeView:
        """A person lets a node pass: one under review counts as correct; reviewed, it may be
        exported. Raises NotFound, Conflict."""
        return await reviewing.approve(self._shared, session_id, node_id, author, note)

    async def tree(
        self,
        session_id: str = "",
        *,
        node_id: str = "",
        evaluation_id: str = "",
        diff_base: str = "",
        section: str = "",
        cursor: int = 0,
        detailed: bool = False,
    ) -> TreeView:
        """Sessions, a tree, a node, an evaluation, a difference, or a session's template."""
        if session_id:
            await self._check_opened(session_id)
        return await looking.look(
            self._shared,
            session_id,
            node_id=node_id,
            evaluation_id=evaluation_id,
            diff_base=diff_base,
            section=section,
            cursor=cursor,
            detailed=detailed,
        )

    async def source(self, session_id: str, node_id: str) -> str:
        """A node's text."""
        return await looking.source(self._shared, session_id, node_id)

    async def report(self, session_id: str) -> str:
        """A session as Markdown."""
        return await looking.report(self._shared, session_id)

    async def search(
        self,
        query: str = "",
        *,
        signals: tuple[str, ...] = (),
        target: str = "",
        language: str = "",
        limit: int = 5,
        cursor: int = 0,
    ) -> KnowledgeHits:
        """Pages, skills and passages of documents for words and signals. A question that nothing
        answers is counted."""
        library = await self._library()
        found = await self._shared.thread(
            library.search, query, signals, target, language, limit, cursor
        )
        hits = tuple(
            KnowledgeHit(h.id, h.title, h.category, h.why, h.snippet, h.score, h.section)
            for h in found.hits
        )
        if not found.fits and not cursor and self.settings.home.is_dir():
            await self._shared.thread(self._shared.count_gap, query, signals, target)
        return KnowledgeHits(hits, found.total, found.next_cursor, found.note, found.fits)

    async def read(self, page_id: str, *, offset: int = 0) -> KnowledgePage:
        """A page from `offset` on, in pieces."""
        library = await self._library()
        found = await self._shared.thread(library.read, page_id, offset, PAGE_CHARACTERS)
        return KnowledgePage(found.id, found.title, found.text, found.next_offset)

    async def page(self, page_id: str) -> str:
        """A page, whole."""
        library = await self._library()
        return (await self._shared.thread(library.read, page_id, 0, 10_000_000)).text

    async def record_skill(self, request: SkillRequest, *, author: str = "") -> SkillView:
        """A proposal with measured evidence; refused with the reason where the effect is not
        certain."""
        return await skills.record(self._shared, request, author)

    async def skills(self, state: SkillState | None = None) -> tuple[SkillCounts, ...]:
        """All skills with what became of their uses, or those of one state."""
        return await skills.listing(self._shared, state)

    async def skill(self, name: str) -> SkillDetail:
        """One skill, with evidence and history. Raises NotFound."""
        return await skills.page(self._shared, name)

    async def decide_skill(
        self, name: str, verb: Literal["accepted", "retired"], author: str, note: str = ""
    ) -> SkillView:
        """A person accepts a skill or retires it. Raises NotFound, Conflict."""
        return await skills.decide(self._shared, name, verb, author, note)

    async def export_skill(self, name: str, parent: Path) -> Path:
        """The folder written below `parent`. Raises NotFound, Conflict, UsageError."""
        return await skills.send(self._shared, name, parent)

    async def import_skill(self, folder: Path, author: str) -> SkillView:
        """A skill from elsewhere, as a proposal. Raises UsageError naming what is wrong with the
        folder."""
        return await skills.receive(self._shared, folder, author)

    async def job(self, job_id: str) -> JobView:
        """Where a job is, with its result when it is done."""
        await self._shared.store()
        return await self._shared.jobs.view(job_id)

    async def wait(
        self, job_id: str, wait_s: float, *, progress: Progress | None = None
    ) -> JobView:
        """At most `wait_s` seconds, then where it is."""
        return await self._shared.jobs.wait(job_id, wait_s, progress)

    async def wait_any(
        self, session_id: str, wait_s: float, *, progress: Progress | None = None
    ) -> JobView | None:
        """The first of the session's running jobs to end; None when none runs."""
        await self._check_opened(session_id, opening_is_fine=True)
        return await self._shared.jobs.wait_any(session_id, wait_s, progress)

    async def cancel(self, *, job_id: str = "", session_id: str = "") -> tuple[JobView, ...]:
        """Stop the job, or all running jobs of the session and the search of its parameters until
        its next ask, and kill their workers."""
        if job_id:
            return await self._shared.jobs.cancel([job_id])
        await self._check_opened(session_id, opening_is_fine=True)
        await self._shared.background.stop(session_id)
        running = [j.id for j in await self._shared.jobs.list(session_id) if not j.over]
        return await self._shared.jobs.cancel(running)

    async def jobs(self, session_id: str = "") -> tuple[JobView, ...]:
        """The newest first, without results."""
        return await self._shared.jobs.views(session_id)

    async def _check_opened(self, session_id: str, *, opening_is_fine: bool = False) -> None:
        await opening.check_opened(self._shared, session_id, opening_is_fine)

    async def _library(self) -> Library:
        # looking something up makes no home
        if self.settings.database or (self.settings.home / "kevolve.db").exists():
            await self._shared.store()
        return await self._shared.thread(self._shared.library)

    def _local_executor(self, python: str, near: Path | None) -> Executor:
        """This machine's judge, imported when it is first needed."""
        from kevolve_mcp.executors.local import LocalExecutor

        return LocalExecutor(
            python or None, cache=self.settings.cache, near=near, configured=self.settings.python
        )
