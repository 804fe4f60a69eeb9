"""What the use cases of the façade share: each is a class of its own module, and the service is all
of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kevolve_mcp.actions import Action
from kevolve_mcp.errors import Conflict, NotFound

from .home import Home

if TYPE_CHECKING:
    from .shared import Shared


class LookingUseCase:
    """Needs no more than a home, so it may be made and used alone, too."""

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


class UseCase(LookingUseCase):
    """One that also needs executors and jobs."""

    _shared: Shared
