"""Who works on a GPU at a time: several evaluations of a search, or one of anything else."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator


class Turns:
    """A lock that many share or one has alone. Whoever waits to have it alone is the next: nobody
    begins to share it meanwhile."""

    def __init__(self) -> None:
        self._changed = asyncio.Condition()
        self._sharing = self._waiting = 0
        self._alone = False

    @property
    def free(self) -> bool:
        """Whether nobody has it or waits for it."""
        return not (self._sharing or self._waiting or self._alone)

    @contextlib.asynccontextmanager
    async def share(self) -> AsyncIterator[None]:
        async with self._changed:
            await self._changed.wait_for(lambda: not (self._alone or self._waiting))
            self._sharing += 1
        try:
            yield
        finally:
            self._sharing -= 1
            await self._tell()

    @contextlib.asynccontextmanager
    async def alone(self) -> AsyncIterator[None]:
        async with self._changed:
            self._waiting += 1
            try:
                await self._changed.wait_for(lambda: not (self._alone or self._sharing))
                self._alone = True
            finally:
                self._waiting -= 1
                self._changed.notify_all()
        try:
            yield
        finally:
            self._alone = False
            await self._tell()

    async def _tell(self) -> None:
        async with self._changed:
            self._changed.notify_all()
