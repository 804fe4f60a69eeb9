"""Where the store of a suite lies."""

from __future__ import annotations

from pathlib import Path

from ..examples import Clock
from ..store import Store


class Suite:
    """Override `url`."""

    def url(self, home: Path) -> str:
        """The URL for `Store.open`."""
        return ""

    def store(self, home: Path, clock: Clock | None = None) -> Store:
        """An open store."""
        return Store.open(home, self.url(home), clock=clock or Clock())
