"""What every module of this package works with: store, executors, knowledge, jobs; opened when
first needed."""

from __future__ import annotations

import functools
import logging
import sqlite3
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, ParamSpec, TypeVar

import anyio
from anyio import to_thread

from kevolve_mcp import api
from kevolve_mcp.errors import NotFound
from kevolve_mcp.retrieval import nearness
from kevolve_mcp.settings import Settings
from kevolve_mcp.store import Store
from knowledge import Documents, Gaps, Library

from .pool import ExecutorFactory, Pool
from .skills.learned import Learned
from .trees import Trees

if TYPE_CHECKING:
    from .background import Background
    from .jobs import Jobs

P = ParamSpec("P")
T = TypeVar("T")
log = logging.getLogger(__name__)


class Shared:
    """One per service. The store is opened, migrated and looked through for lost jobs at the first
    call that needs it."""

    jobs: Jobs  # these two are set by the service
    background: Background

    def __init__(self, settings: Settings, executors: ExecutorFactory) -> None:
        self.settings = settings
        self.pool = Pool(executors)
        self.trees = Trees()
        self.on_store: Callable[[Store], None] = lambda store: None
        self._store: Store | None = None
        self._opening = anyio.Lock()
        self._library: Library | None = None
        self._learned = Learned()
        self._asking: dict[str, anyio.Lock] = {}
        self._telling: dict[str, anyio.Lock] = {}

    async def store(self) -> Store:
        """Raises StoreError."""
        if self._store is None:
            async with self._opening:
                if self._store is None:
                    self._store = await self.thread(
                        Store.open, self.settings.home, self.settings.database
                    )
                    self.on_store(self._store)
        return self._store

    async def thread(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """A blocking call in a worker thread; cancelling the caller waits for it, so a transaction
        ends one way or the other."""
        return await to_thread.run_sync(functools.partial(function, *args, **kwargs))

    async def left(self, session: str) -> api.Left | None:
        """What an open session may still spend; None of one that is over, is still being opened or
        has no limit."""
        store = await self.store()
        try:
            record = await self.thread(store.sessions.get, session)
        except NotFound:
            return None
        if record.state != "open":
            return None
        return api.left(record.budget, await self.thread(store.sessions.spent, session))

    def asking(self, session: str) -> anyio.Lock:
        """Asks of one session are made one after the other in this process."""
        return self._asking.setdefault(session, anyio.Lock())

    def telling(self, session: str) -> anyio.Lock:
        """Who may be the best node of one session is settled for one kernel after the other."""
        return self._telling.setdefault(session, anyio.Lock())

    def library(self) -> Library:
        """Built-in knowledge, the registered documents and, once the store is open, the skills
        accepted there; loading it takes some milliseconds, so call it from a worker thread."""
        if self._library is None:
            documents = Documents(self.settings.home / "documents")
            self._library = Library.builtin(nearness=nearness(self.settings)).with_documents(
                documents
            )
        return self._learned.library(self._library, self._store)

    def count_gap(self, query: str, signals: Sequence[str], target: str) -> None:
        """Note that nothing answers this. A file that cannot be written is the log's affair: the
        answer does not depend on it."""
        try:
            Gaps(self.settings.home / "gaps.db").record(query, signals, target)
        except (OSError, sqlite3.Error) as error:
            log.warning("a question without an answer could not be counted: %s", error)

    async def close(self) -> None:
        """Executors first: what they still do must not write afterwards."""
        await self.pool.close()
        if self._library is not None:
            self._library.close()
        if self._store is not None:
            await self.thread(self._store.close)
