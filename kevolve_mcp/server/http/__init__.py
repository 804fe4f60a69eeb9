"""The MCP server over streamable HTTP: for several agents on one home, and for clients that are not
on this machine.

`serve_http` listens; only it imports what needs uvicorn. `read_token` finds the token for a client.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .options import PATH, PORT, HttpOptions, Limits
from .token import read_token

if TYPE_CHECKING:
    from .run import serve_http

__all__ = ["PATH", "PORT", "HttpOptions", "Limits", "read_token", "serve_http"]


def __getattr__(name: str) -> Any:
    """Load a name on first use: only HTTP needs uvicorn."""
    if name == "serve_http":
        from .run import serve_http

        return serve_http
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
