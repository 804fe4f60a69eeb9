"""What evaluations are called, through the tools: each session counts its own from e1."""

from __future__ import annotations

from typing import Any

import pytest
from mcp import Client

from .conftest import TASK, data, kernel, open_session, refused, text

pytestmark = pytest.mark.anyio


async def _submitted(client: Client, session: str, source: str) -> dict[str, Any]:
    arguments = {"session_id": session, "source": source}
    return dict(data(await client.call_tool("kernel_submit", arguments))["result"])


async def _shown(client: Client, **named: str) -> str:
    return text(await client.call_tool("tree_view", named))


async def test_each_session_counts_its_own(client: Client) -> None:
    outside = {"task_source": TASK, "source": kernel(1.1)}
    checked = data(await client.call_tool("kernel_check", outside))["result"]["evaluation"]
    first = await open_session(client)
    assert [
        (await _submitted(client, first, kernel(figure)))["evaluation"]["id"]
        for figure in (1.2, 1.4)
    ] == ["e1", "e2"]
    second = await open_session(client, new=True)
    assert (await _submitted(client, second, kernel(1.3)))["evaluation"]["id"] == "e1"

    assert "1.2x" in await _shown(client, session_id=first, evaluation_id="e1")
    assert "1.3x" in await _shown(client, session_id=second, evaluation_id="e1")
    alone = await _shown(client, evaluation_id=checked["id"])
    assert checked["id"] == "x1"
    assert alone.startswith("x1: correct, check")
    assert alone == await _shown(client, session_id=first, evaluation_id="x1")


async def test_an_answer_of_another_session_is_named_with_it(client: Client) -> None:
    first = await open_session(client)
    await _submitted(client, first, kernel(1.2))
    second = await open_session(client, new=True)
    told = await _submitted(client, second, kernel(1.2))
    name = f"{first}/e1"
    assert (told["cached"], told["evaluation"]["id"]) == (True, name)
    assert told["node"]["evaluation_id"] == name
    for named in ({"session_id": second, "evaluation_id": name}, {"evaluation_id": name}):
        assert (await _shown(client, **named)).startswith(f"{name}: correct")
    await _submitted(client, second, kernel(1.9))
    tree = await client.call_tool("tree_view", {"session_id": second})
    assert [n["evaluation_id"] for n in data(tree)["data"]["nodes"]] == [name, "e1"]
    ended = data(await client.call_tool("session_finish", {"session_id": second}))["result"]
    assert (ended["confirmed"]["id"], ended["measured"]["id"]) == ("e2", "e3")


async def test_an_id_that_counts_per_session_asks_for_its_session(client: Client) -> None:
    session = await open_session(client)
    await _submitted(client, session, kernel(1.2))
    error = refused(await client.call_tool("tree_view", {"evaluation_id": "e1"}))
    assert error["code"] == "usage"
    assert "without its session" in error["message"]
    assert "count per session" in error["hint"]
    gone = {"session_id": session, "evaluation_id": "e90"}
    error = refused(await client.call_tool("tree_view", gone))
    assert (error["code"], error["hint"]) == ("not_found", "It has e1 to e1.")
    gone = {"session_id": "no-such", "evaluation_id": "e1"}
    error = refused(await client.call_tool("tree_view", gone))
    assert "no-such" in error["message"]


async def test_what_is_shown_next_names_the_session(client: Client) -> None:
    session = await open_session(client)
    arguments = {"session_id": session, "source": kernel(status="incorrect")}
    checked = await client.call_tool("kernel_check", arguments)
    call = f"tree_view(session_id={session!r}, evaluation_id='e1', section='log')"
    assert call in text(checked)
