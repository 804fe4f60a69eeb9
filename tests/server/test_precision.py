"""A kernel whose interval says nothing is measured longer before it becomes a node, as a client
sees it."""

from __future__ import annotations

from typing import Any

import pytest
from mcp import Client

from kevolve_mcp.executors.fake import FakeExecutor

from .conftest import data, kernel, open_session, text

# in one era: the eras differ in nothing that is shown here
pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("client", ["auto"], indirect=True)]


@pytest.fixture
async def session(client: Client) -> str:
    return await open_session(client)


async def told(client: Client, session: str, source: str) -> tuple[Any, str]:
    given = {"session_id": session, "source": source}
    answer = await client.call_tool("kernel_submit", given)
    return data(answer)["result"], text(answer)


def efforts(executor: FakeExecutor) -> list[float]:
    return [request.effort for request in executor.requests if request.purpose == "search"]


async def test_a_useless_interval_gets_more_processes(
    client: Client, executor: FakeExecutor, session: str
) -> None:
    result, said = await told(client, session, kernel(1.5, noise=0.3))
    assert result["evaluation"]["processes"] == 15
    assert efforts(executor) == [1.0, 1.0, 1.0, 2.0]
    assert [r.earlier.processes for r in executor.requests] == [0, 3, 6, 9]
    assert "Timed in 15 fresh processes." in said
    # one node, which has the figures of all
    assert result["node"]["evaluation_id"] == result["evaluation"]["id"]
    assert result["spent"]["evaluations"] == 1
    shown = {"session_id": session, "node_id": "n1"}
    assert "timed in 15 fresh processes" in text(await client.call_tool("tree_view", shown))


async def test_it_ends_as_soon_as_the_interval_says_something(
    client: Client, executor: FakeExecutor, session: str
) -> None:
    result, _ = await told(client, session, kernel(1.5, noise=0.2))
    assert (result["evaluation"]["processes"], len(executor.requests)) == (6, 2)
    # around 1 it has to be narrower
    result, _ = await told(client, session, kernel(1.02, noise=0.14))
    assert result["evaluation"]["processes"] == 3  # plainly behind by now
    result, said = await told(client, session, kernel(1.8))
    assert result["evaluation"]["processes"] == 3
    assert "fresh processes" not in said


async def test_the_first_node_must_say_whether_it_beats_the_baseline(
    client: Client, session: str
) -> None:
    result, _ = await told(client, session, kernel(1.02, noise=0.14))
    assert result["evaluation"]["processes"] == 9


async def test_who_cannot_be_the_best_is_not_measured_longer(
    client: Client, executor: FakeExecutor, session: str
) -> None:
    await told(client, session, kernel(3.0))
    await told(client, session, kernel(1.5, noise=0.3))
    await told(client, session, kernel(1.5, noise=0.3, status="incorrect"))
    assert efforts(executor) == [1.0, 1.0, 1.0]


async def test_what_makes_no_node_is_not_measured_longer(
    client: Client, executor: FakeExecutor, session: str
) -> None:
    source = kernel(1.5, noise=0.3)
    await client.call_tool("kernel_profile", {"session_id": session, "source": source})
    assert efforts(executor) == [1.0]
    result, _ = await told(client, session, source)
    assert result["evaluation"]["processes"] == 15
    again, _ = await told(client, session, source)
    assert again["cached"]
    assert len(executor.requests) == 4


async def test_an_evaluator_that_fails_meanwhile_leaves_what_there_is(
    client: Client, executor: FakeExecutor, session: str
) -> None:
    result, _ = await told(client, session, kernel(1.5, noise=0.3, lasting=2))
    assert result["node"]["status"] == "correct"
    assert result["evaluation"]["processes"] == 6
