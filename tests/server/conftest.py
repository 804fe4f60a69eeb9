"""A server on a home of its own whose executor is fake, and a client to it in both protocol
eras."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client
from mcp.server import MCPServer
from mcp.types import CallToolResult

from kevolve_mcp.executors.fake import FakeExecutor
from kevolve_mcp.server import build_server
from kevolve_mcp.sessions import Service
from kevolve_mcp.settings import Settings

TASK = "# fake: name=scale\nclass Model: pass\n\n\ndef get_inputs(): return []\n"
EVERY_ERA = ["auto", "legacy"]


def kernel(speedup: float = 1.5, **markers: object) -> str:
    lines = [f"# fake: {name}={value}" for name, value in {"speedup": speedup, **markers}.items()]
    return "\n".join([*lines, "class ModelNew: pass", ""])


def make_server(home: Path, executor: FakeExecutor | None = None) -> MCPServer[Any]:
    shared = executor or FakeExecutor()
    return build_server(
        Settings(home=home), lambda settings: Service(settings, lambda python, near: shared)
    )


def text(result: CallToolResult) -> str:
    """The answer as a model reads it."""
    return "\n".join(block.text for block in result.content if block.type == "text")


def data(result: CallToolResult) -> dict[str, Any]:
    assert not result.is_error, text(result)
    assert isinstance(result.structured_content, dict)
    return result.structured_content


def refused(result: CallToolResult) -> dict[str, Any]:
    """The error, in the form that all errors have."""
    assert result.is_error, text(result)
    assert isinstance(result.structured_content, dict)
    assert set(result.structured_content) == {
        "code",
        "message",
        "hint",
        "next",
        "actions",
        "retryable",
    }
    assert result.structured_content["message"] in text(result)
    return result.structured_content


async def open_session(client: Client, **arguments: object) -> str:
    answer = data(await client.call_tool("session_open", {"task_source": TASK, **arguments}))
    with anyio.fail_after(60):
        while answer["state"] == "running":
            answer = data(await client.call_tool("job_wait", {"job_id": answer["job_id"]}))
    assert answer["state"] == "done"
    return str(answer["session_id"])


@pytest.fixture
def executor() -> FakeExecutor:
    return FakeExecutor()


@pytest.fixture(params=EVERY_ERA)
async def client(
    request: pytest.FixtureRequest, tmp_path: Path, executor: FakeExecutor
) -> AsyncIterator[Client]:
    async with Client(make_server(tmp_path, executor), mode=request.param) as connected:
        yield connected
