"""The contents of a home, opened when first needed: the store, its trees, and the library of
knowledge. Read-only use needs no more, and imports nothing else."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, ParamSpec, TypeVar

import anyio
from anyio import to_thread

from kevolve_mcp.actions import Action
from kevolve_mcp.errors import Conflict, NotFound
from kevolve_mcp.settings import Settings

if TYPE_CHECKING:
    from kevolve_mcp.store import JobRecord, Store
    from knowledge import Documents, Library, MakeNearness

    from .skills import Learned
    from .trees import Trees

P = ParamSpec("P")
T = TypeVar("T")
log = logging.getLogger(__name__)


class Home:
    """A home. Its store is opened and migrated at the first call that needs it."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.on_store: Callable[[Store], None] = lambda store: None
        self._store: Store | None = None
        self._opening = anyio.Lock()
        self._library: Library | None = None
        self._documents: Documents | None = None

    async def store(self) -> Store:
        """Return the store. Raises StoreError."""
        if self._store is None:
            async with self._opening:
                if self._store is None:
                    from kevolve_mcp.store import Store

                    self._store = await self.thread(
                        Store.open, self.settings.home, self.settings.database
                    )
                    self.on_store(self._store)
        return self._store

    async def thread(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a blocking call in a worker thread. Cancelling the caller waits for it, so that a
        transaction is committed or rolled back."""
        return await to_thread.run_sync(functools.partial(function, *args, **kwargs))

    @cached_property
    def trees(self) -> Trees:
        from .trees import Trees

        return Trees()

    async def opening(self, session: str) -> JobRecord | None:
        """Return the newest job for opening a session of this name."""
        store = await self.store()
        jobs = await self.thread(lambda: [store.jobs.seen(job) for job in store.jobs.list()])
        return next((job for job in jobs if opens(job) == session), None)

    def library(self) -> Library:
        """Return the built-in knowledge, the registered documents and, once the store is open, its
        accepted skills. Loading takes some milliseconds, so call it from a worker thread."""
        if self._library is None:
            from knowledge import Library

            self._library = Library.builtin(nearness=self._nearness())
        if self._documents is None and (folder := self.settings.home / "documents").is_dir():
            from knowledge import Documents

            self._documents = Documents(folder)
            self._library = self._library.with_documents(self._documents)
        if self._store is None:
            return self._library
        return self._learned.library(self._library, self._store)

    @cached_property
    def _learned(self) -> Learned:
        from .skills import Learned

        return Learned()

    def _nearness(self) -> MakeNearness | None:
        if not self.settings.vectors:
            return None
        from kevolve_mcp.retrieval import nearness

        return nearness(self.settings)

    def count_gap(self, query: str, signals: Sequence[str], target: str) -> None:
        """Count a question without an answer. A file that cannot be written is only logged, since
        the answer does not depend on it."""
        import sqlite3

        from knowledge import Gaps

        try:
            Gaps(self.settings.home / "gaps.db").record(query, signals, target)
        except (OSError, sqlite3.Error) as error:
            log.warning("a question without an answer could not be counted: %s", error)

    async def close(self) -> None:
        if self._library is not None:
            self._library.close()
        if self._store is not None:
            await self.thread(self._store.close)


def opens(job: JobRecord) -> str:
    """Return the name of the session that this job opens, "" for other jobs."""
    return str(job.payload.get("name", "")) if job.kind == "open" else ""


class LookingUseCase:
    """A use case that only needs a home, so it may also be used alone."""

    _shared: Home

    def __init__(self, home: Home) -> None:
        self._shared = home

    async def _check_opened(self, session_id: str, *, opening_is_fine: bool = False) -> None:
        """Raises NotFound for a session that is unknown or could not be opened, and Conflict for
        one that is still being opened."""
        store = await self._shared.store()
        try:
            await self._shared.thread(store.sessions.get, session_id)
        except NotFound:
            job = await self._shared.opening(session_id)
            if job is None:
                raise
            if not job.over and not opening_is_fine:
                raise Conflict(
                    f"session {session_id} is still being opened by job {job.id}",
                    "Wait for it, then call again.",
                    Action("wait", job=job.id),
                ) from None
            if job.over:
                why = job.error["message"] if job.error else job.state
                raise NotFound(
                    f"session {session_id} was not opened: {why}",
                    "Fix that and open it again.",
                    Action("open_session"),
                ) from None
