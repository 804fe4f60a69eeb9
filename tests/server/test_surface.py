"""What a client sees before it calls anything: names, schemas, sizes. UPDATE_TOOLS=1 rewrites the
snapshot."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from mcp import Client

from .conftest import make_server

pytestmark = pytest.mark.anyio

DOCS = Path(__file__).parents[2] / "docs"
SNAPSHOT = Path(__file__).with_name("tools.json")
TOOLS = [
    "target_describe",
    "session_open",
    "session_next",
    "session_finish",
    "kernel_compile",
    "kernel_check",
    "kernel_profile",
    "kernel_submit",
    "tree_view",
    "knowledge_search",
    "knowledge_read",
    "skill_record",
    "job_wait",
    "job_cancel",
]


async def test_the_snapshot_holds(client: Client) -> None:
    found = [
        t.model_dump(by_alias=True, exclude_none=True, mode="json")
        for t in (await client.list_tools()).tools
    ]
    text = json.dumps(found, indent=1, sort_keys=True) + "\n"
    if os.environ.get("UPDATE_TOOLS"):
        SNAPSHOT.write_text(text)
    assert text == SNAPSHOT.read_text(), (
        "the tools changed: set UPDATE_TOOLS=1 once and review the difference"
    )


async def test_sizes_and_hints(client: Client) -> None:
    tools = (await client.list_tools()).tools
    assert [t.name for t in tools] == TOOLS
    assert client.instructions is not None
    assert len(client.instructions) < 2000
    for name in TOOLS[:5]:
        assert name in client.instructions or name == "target_describe"
    listed = json.dumps(
        [t.model_dump(by_alias=True, exclude_none=True, mode="json") for t in tools],
        separators=(",", ":"),
    )
    tokens = len(listed) / 4
    assert tokens < 7000
    assert f"takes about {round(tokens, -2):,.0f} tokens" in (DOCS / "tools.md").read_text()
    for tool in tools:
        assert tool.title
        assert tool.description
        assert len(tool.description) < 2000
        assert tool.annotations is not None
        assert tool.annotations.read_only_hint is not None
        assert tool.annotations.open_world_hint is False
        assert tool.output_schema is not None
        assert {"verdict", "next", "actions"} <= set(tool.output_schema["properties"])
        assert "ctx" not in tool.input_schema["properties"]
    reads = {t.name for t in tools if t.annotations is not None and t.annotations.read_only_hint}
    assert reads == {
        "target_describe",
        "tree_view",
        "knowledge_search",
        "knowledge_read",
        "job_wait",
    }


async def test_slow_tools_take_wait_s(client: Client) -> None:
    slow = {
        t.name
        for t in (await client.list_tools()).tools
        if "wait_s" in t.input_schema["properties"]
    }
    assert slow == {
        "session_open",
        "session_finish",
        "kernel_compile",
        "kernel_check",
        "kernel_profile",
        "kernel_submit",
        "job_wait",
    }


async def test_the_list_is_the_same_on_every_connection(tmp_path: Path) -> None:
    lists = []
    for mode in ("auto", "legacy"):
        async with Client(make_server(tmp_path), mode=mode) as client:
            lists.append([t.model_dump(mode="json") for t in (await client.list_tools()).tools])
    assert lists[0] == lists[1]
