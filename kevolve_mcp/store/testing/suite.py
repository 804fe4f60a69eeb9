"""The store of a suite."""

from __future__ import annotations

from pathlib import Path

from ..examples import Clock
from ..store import Store


class Suite:
    """Override `url`."""

    def url(self, home: Path) -> str:
        """Return the URL for `Store.open`."""
        return ""

    def store(self, home: Path, clock: Clock | None = None) -> Store:
        """Return an open store."""
        return Store.open(home, self.url(home), clock=clock or Clock())
