"""The MCP surface of KEvolve: thin. It validates, calls a session and phrases the answer. `serve` serves stdio,
`build_server` gives the server object to whoever serves it otherwise; `main.main` is the console script."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .main import build_server, serve

__all__ = ["build_server", "serve"]


def __getattr__(name: str) -> Any:
    """Loaded when used, so that `python -m kevolve_mcp.server.main` does not find its own module imported already."""
    if name in __all__:
        from importlib import import_module

        return getattr(import_module(".main", __name__), name)
    raise AttributeError(name)
