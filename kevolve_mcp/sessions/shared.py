"""What every module of this package works with that changes something: the home, executors and
jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio

from kevolve_mcp import api
from kevolve_mcp.errors import NotFound
from kevolve_mcp.settings import Settings

from .home import Home, LookingUseCase
from .pool import ExecutorFactory, Pool

if TYPE_CHECKING:
    from .background import Background
    from .jobs import JobRunner


class Shared(Home):
    """One per service. The store is looked through for lost jobs when it is opened."""

    jobs: JobRunner  # these two are set by the service
    background: Background

    def __init__(self, settings: Settings, executors: ExecutorFactory) -> None:
        super().__init__(settings)
        self.pool = Pool(executors)
        self._asking: dict[str, anyio.Lock] = {}
        self._telling: dict[str, anyio.Lock] = {}

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

    async def close(self) -> None:
        """Executors first: what they still do must not write afterwards."""
        await self.pool.close()
        await super().close()


class UseCase(LookingUseCase):
    """One that also needs executors and jobs."""

    _shared: Shared
