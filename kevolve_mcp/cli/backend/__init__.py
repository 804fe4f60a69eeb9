"""Where a command runs: on this machine, or on a running server. `choose` decides; the commands
only know `Backend`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kevolve_mcp.lazy import loader

if TYPE_CHECKING:
    from .base import Backend, FileJudge, done, look_through, look_up

__all__ = ["Backend", "FileJudge", "choose", "done", "look_through", "look_up"]

__getattr__ = loader(
    __name__, {"base": ("Backend", "FileJudge", "done", "look_through", "look_up")}
)


def choose(server: str = "", token: str = "") -> Backend:
    """Return the running server that the options or the environment name, else this machine. Raises
    UsageError."""
    from kevolve_mcp.errors import UsageError
    from kevolve_mcp.settings import Settings

    if url := server or Settings().server:
        from .remote import Remote

        return Remote.at(url, token)
    if token:
        raise UsageError("--token needs a server", "Name the server, too: --server URL.")
    from .local import Local

    return Local()
