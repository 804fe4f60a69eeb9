"""KEvolve's real server over stdio, with the scripted executor instead of a judge."""

from __future__ import annotations

import os
from pathlib import Path

from mcp.server import MCPServer

from kevolve_mcp.executors.base import Executor
from kevolve_mcp.executors.fake import FakeExecutor
from kevolve_mcp.server import build_server
from kevolve_mcp.server.context import App
from kevolve_mcp.sessions import Service, background
from kevolve_mcp.settings import Settings


def scripted(python: str, near: Path | None) -> Executor:
    return FakeExecutor()


def fake_server(*, python: str = "") -> MCPServer[App]:
    """Settings come from the environment, as the real program's do."""
    return build_server(Settings(), lambda settings: Service(settings, scripted))


if __name__ == "__main__":
    if log := os.environ.get("FAKE_SERVER_PIDS"):  # for tests that kill it
        with Path(log).open("a") as file:
            print(os.getpid(), file=file)
    # what a test finds must not depend on how long an author took
    background.PAUSE_S = 3600.0
    fake_server().run("stdio")
