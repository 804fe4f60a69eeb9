"""What a session may still spend stands in every answer about it."""

from __future__ import annotations

from typing import Any

import pytest
from mcp import Client

from .conftest import data, kernel, open_session, refused, text

pytestmark = pytest.mark.anyio


async def said(client: Client, tool: str, **arguments: Any) -> tuple[Any, str]:
    """What is left as a value, and the last line of the text."""
    answer = await client.call_tool(tool, arguments)
    last = [block.text for block in answer.content if block.type == "text"][-1]
    return data(answer)["left"], last.splitlines()[-1]


async def test_each_answer_says_how_many_evaluations_are_left(client: Client) -> None:
    budget = {"evaluations": 3, "seconds": 9000}
    session = await open_session(client, budget=budget, policy={"tune": 0})
    about = {"session_id": session}
    for spent, source in enumerate((kernel(1.2), kernel(1.3), kernel(1.4)), 1):
        left, line = await said(client, "kernel_submit", **about, source=source)
        assert left["evaluations"] == 3 - spent
        assert 8000 < left["seconds"] <= 9000
        assert line.startswith(f"Left: {3 - spent} evaluation")
        assert line.endswith(" s")
        again, line = await said(client, "kernel_submit", **about, source=source)
        assert (again["evaluations"], line[:7]) == (3 - spent, f"Left: {3 - spent}")
    for tool in ("session_next", "tree_view"):
        left, line = await said(client, tool, **about)
        assert left["evaluations"] == 0
        assert line.startswith("Left: 0 evaluations, ")
    left, line = await said(client, "kernel_profile", **about, source=kernel(1.5))
    assert (left["evaluations"], line[:7]) == (0, "Left: 0")


async def test_nothing_is_said_without_a_budget_or_after_the_end(client: Client) -> None:
    session = await open_session(client, budget={})
    left, line = await said(client, "kernel_submit", session_id=session, source=kernel(1.2))
    assert left is None
    assert "Left: " not in line
    session = await open_session(client, budget={"evaluations": 3}, new=True)
    await said(client, "kernel_submit", session_id=session, source=kernel(1.2))
    left, line = await said(client, "session_finish", session_id=session)
    assert left is None
    assert "Left: " not in line


async def test_a_kernel_beyond_the_budget_is_refused_and_told_to_finish(client: Client) -> None:
    session = await open_session(client, budget={"evaluations": 1})
    await said(client, "kernel_submit", session_id=session, source=kernel(1.2))
    answer = await client.call_tool("kernel_submit", {"session_id": session, "source": kernel(1.3)})
    error = refused(answer)
    assert error["code"] == "budget_full"
    assert "1 of 1 evaluations are spent" in error["message"]
    assert error["next"] == (
        f"session_finish(session_id={session!r}) ends the search with its best node; "
        f"session_next(session_id={session!r}) with a larger budget goes on"
    )
    tree = await client.call_tool("tree_view", {"session_id": session})
    assert data(tree)["data"]["session"]["nodes"] == 1


async def test_no_ask_where_others_fill_the_budget_is_not_the_end(client: Client) -> None:
    session = await open_session(client, budget={"evaluations": 1})
    slow = {"session_id": session, "source": kernel(1.2, seconds=60), "wait_s": 0}
    await client.call_tool("kernel_submit", slow)
    answer = await client.call_tool("session_next", {"session_id": session})
    assert data(answer)["asks"] == []
    assert "No ask now" in text(answer)
    assert "ended" not in text(answer)
    await client.call_tool("job_cancel", {"session_id": session})
