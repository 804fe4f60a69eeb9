"""What the loop needs of a server, whatever lies between."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

ProgressListener = Callable[[str, float], None]  # (message, fraction of the call)


class Tools(Protocol):
    """What the loop needs of a server: call a tool, get its structured content."""

    async def call(
        self, tool: str, arguments: dict[str, Any], progress: ProgressListener | None = None
    ) -> Answer:
        """Raises the KEvolveError that the server answered with, and Unavailable when there is no
        server."""


@dataclass(frozen=True)
class Answer:
    """What a tool said."""

    data: dict[str, Any]
    """The structured content."""
    body: str = ""
    """What a person would read after the verdict."""

    @property
    def text(self) -> str:
        """Join verdict and body."""
        return "\n".join(filter(None, (str(self.data.get("verdict", "")), self.body)))
