"""Searching and reading pages, skills and passages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kevolve_mcp import api
from kevolve_mcp.store import taught_something
from kevolve_mcp.synthesis.shown import LEARNED

from .home import LookingUseCase

if TYPE_CHECKING:
    from knowledge import Library, Reading

PAGE_CHARACTERS = 12_000


class Knowledge(LookingUseCase):
    async def search(
        self,
        query: str = "",
        *,
        signals: tuple[str, ...] = (),
        target: str = "",
        language: str = "",
        limit: int = 5,
        cursor: int = 0,
    ) -> api.Hits:
        """Search pages, skills and passages of documents by words and signals. A question without
        an answer is counted."""
        library = await self._library()
        results = await self._shared.thread(
            library.search, query, signals, target, language, limit, cursor
        )
        if not results.fits and not cursor and self._shared.settings.home.is_dir():
            await self._shared.thread(self._shared.count_gap, query, signals, target)
        return api.hits(results)

    async def read(self, page_id: str, *, offset: int = 0) -> api.Page:
        """Return a part of a page from `offset` on. Texts of other sessions are quoted."""
        library = await self._library()
        reading = await self._shared.thread(library.read, page_id, offset, PAGE_CHARACTERS)
        return api.page(reading, _told(reading))

    async def page(self, page_id: str) -> str:
        """Return a whole page. Texts of other sessions are quoted."""
        library = await self._library()
        return _told(await self._shared.thread(library.read, page_id, 0, 10_000_000))

    async def _library(self) -> Library:
        # looking something up must not create a home
        settings = self._shared.settings
        if taught_something(settings.home, settings.database):
            await self._shared.store()
        return await self._shared.thread(self._shared.library)


def _told(reading: Reading) -> str:
    if not reading.id.startswith(LEARNED):
        return reading.text
    from kevolve_mcp.synthesis.sections import material  # not for a search alone

    return material(reading.text)
