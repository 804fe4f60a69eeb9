"""The MCP surface of KEvolve. It is thin: it validates, calls a session and phrases the answer.
`build_server` returns the server object; `kevolve_mcp.cli.serve` serves it over stdio,
`kevolve_mcp.server.http` over HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .build import build_server

__all__ = ["build_server"]


def __getattr__(name: str) -> Any:
    """Load a name on first use: `main` must check the environment before anything is imported."""
    if name == "build_server":
        from .build import build_server

        return build_server
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
