"""Who calls, as a server keeps it with what was asked."""

from __future__ import annotations

from importlib.metadata import version

from mcp.types import Implementation


def identity(name: str) -> Implementation:
    """Return the name of a command, and this version."""
    return Implementation(name=name, version=version("kevolve-mcp"))
