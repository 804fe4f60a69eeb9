"""What the loop needs of a server, whatever the transport."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

ProgressListener = Callable[[str, float], None]  # (message, fraction of the call)


class Tools(Protocol):
    """A server's tools, called by name."""

    async def call(
        self, tool: str, arguments: dict[str, Any], progress: ProgressListener | None = None
    ) -> Answer:
        """Call a tool. Raises the KEvolveError that the server answered with, and Unavailable when
        there is no server."""


@dataclass(frozen=True)
class Answer:
    """The answer of a tool."""

    data: dict[str, Any]
    """The structured content."""
    body: str = ""
    """The text after the verdict."""

    @property
    def text(self) -> str:
        """Return verdict and body as one text."""
        return "\n".join(filter(None, (str(self.data.get("verdict", "")), self.body)))
