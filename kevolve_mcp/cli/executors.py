"""The executor of the commands that need no server."""

from __future__ import annotations

from pathlib import Path

from kevolve_mcp.executors.base import Executor
from kevolve_mcp.settings import Settings


def open_executor(python: str, near: Path | None) -> Executor:
    """This machine's judge. python: the interpreter that evaluates, "" to look for one near the
    folder `near`."""
    from kevolve_mcp.executors.local import LocalExecutor

    settings = Settings()
    return LocalExecutor(
        python or None, cache=settings.cache, near=near, configured=settings.python
    )
