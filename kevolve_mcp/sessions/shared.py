"""What the modules of this package that change something share: the home, executors and jobs."""

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
    """The shared state of a service. When the store is opened, it is searched for lost jobs."""

    jobs: JobRunner  # these two are set by the service
    background: Background

    def __init__(self, settings: Settings, executors: ExecutorFactory) -> None:
        super().__init__(settings)
        self.pool = Pool(executors)
        self._asking: dict[str, anyio.Lock] = {}
        self._telling: dict[str, anyio.Lock] = {}

    async def left(self, session: str) -> api.Left | None:
        """Return what an open session may still spend; None for one that is over, is still being
        opened or has no limit."""
        store = await self.store()
        try:
            record = await self.thread(store.sessions.get, session)
        except NotFound:
            return None
        if record.state != "open":
            return None
        return api.left(record.budget, await self.thread(store.sessions.spent, session))

    def asking(self, session: str) -> anyio.Lock:
        """Return the lock under which this process makes the asks of a session one at a time."""
        return self._asking.setdefault(session, anyio.Lock())

    def telling(self, session: str) -> anyio.Lock:
        """Return the lock under which possible best nodes of a session are settled one at a
        time."""
        return self._telling.setdefault(session, anyio.Lock())

    async def close(self) -> None:
        """Close the executors first, so that their work cannot write afterwards."""
        await self.pool.close()
        await super().close()


class UseCase(LookingUseCase):
    """A use case that also needs executors and jobs."""

    _shared: Shared
