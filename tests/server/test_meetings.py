"""Who is the best of a search, as a client sees it: a kernel that may be as good is timed against
the best one, and takes its place only if it won."""

from __future__ import annotations

import re
from typing import Any

import pytest
from mcp import Client

from kevolve_mcp.executors.fake import FakeExecutor

from .conftest import data, kernel, open_session, text

# in one era: the eras differ in nothing that is shown here
pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("client", ["auto"], indirect=True)]


async def told(client: Client, session: str, source: str, **arguments: object) -> tuple[Any, str]:
    given = {"session_id": session, "source": source, **arguments}
    answer = await client.call_tool("kernel_submit", given)
    return data(answer)["result"], text(answer)


async def shown(client: Client, session: str) -> str:
    return text(await client.call_tool("tree_view", {"session_id": session}))


async def asked(client: Client, session: str) -> str:
    return text(await client.call_tool("session_next", {"session_id": session}))


async def test_the_winner_is_the_best_and_tree_and_ask_say_so(
    client: Client, executor: FakeExecutor
) -> None:
    session = await open_session(client)
    await told(client, session, kernel(1.52, compared=1.5))
    result, said = await told(client, session, kernel(1.51, compared=1.59), parents=["n1"])
    assert result["new_best"]
    assert "n2 is correct" in said
    assert ", the new best" in said
    assert "Head-to-head with the best so far: n2 beat n1: 1.06x [1.05, 1.07]." in said
    assert "Against its parent: 1.06x [1.05, 1.07], improved." in said
    tree = await shown(client, session)
    assert "best n2 at 1.51x" in tree
    assert "(n2 beat n1: 1.06x [1.05, 1.07])" in tree
    assert "best so far n2 with F = 1.510; head-to-head, n2 beat n1: 1.06x [1.05, 1.07]" in (
        await asked(client, session)
    )
    assert [len(r.candidates) for r in executor.compared] == [2]


async def test_an_equal_child_is_called_equal(client: Client) -> None:
    session = await open_session(client)
    await told(client, session, kernel(1.5))
    _, said = await told(client, session, kernel(1.52, compared=1.5), parents=["n1"])
    assert (
        "Against its parent: 1x [0.99, 1.01], equal, within the resolution of the device." in said
    )
    _, said = await told(client, session, kernel(1.47, noise=0.1), parents=["n1"])
    assert re.search(r"Against its parent: .*, no clear change\.", said)


async def test_what_the_clock_alone_leaves_open_is_said(client: Client) -> None:
    session = await open_session(client)
    await told(client, session, kernel(1.5))
    result, said = await told(client, session, kernel(1.53, compared=1.62, open=1), parents=["n1"])
    assert result["best"]["id"] == "n1"
    left = "1.08x [1.07, 1.09], within the error of the judge's clock for such short calls."
    assert f"n2 is not certainly faster than n1: {left} n1 stays the best." in said
    assert (
        "faster by the figures, within the error of the judge's clock for such short calls" in said
    )
    compared = {"session_id": session, "source": kernel(1.7, open=1), "against": ["n1"]}
    answer = text(await client.call_tool("kernel_profile", compared))
    assert "(inconclusive, faster by the figures alone)" in answer
    assert (
        "By the figures alone: the difference is smaller than the error of the judge's clock"
        in answer
    )


async def test_a_lucky_figure_does_not_lead(client: Client) -> None:
    session = await open_session(client)
    await told(client, session, kernel(1.5))
    result, said = await told(client, session, kernel(1.52, compared=1.5))
    assert not result["new_best"]
    assert result["best"]["id"] == "n1"
    assert "n2 equals n1: 1x [0.99, 1.01]. n1 stays the best." in said
    result, said = await told(client, session, kernel(1.51, compared=1.3))
    assert result["best"]["id"] == "n1"
    assert "n3 lost to n1: 0.867x [0.858, 0.875]. n1 stays the best." in said


async def test_who_is_plainly_ahead_or_behind_meets_nobody(
    client: Client, executor: FakeExecutor
) -> None:
    session = await open_session(client)
    await told(client, session, kernel(1.5))
    await told(client, session, kernel(1.2))
    await told(client, session, kernel(1.5, status="incorrect"))
    result, said = await told(client, session, kernel(1.8))
    assert result["new_best"]
    assert "Head-to-head" not in said
    # the text that is the best already
    await told(client, session, kernel(1.8), parents=["n1"])
    assert executor.compared == []


async def test_a_meeting_is_paid_for_and_survives_a_known_answer(
    client: Client, executor: FakeExecutor
) -> None:
    """What was profiled before is in the store, and meets the best all the same."""
    session = await open_session(client)
    await told(client, session, kernel(1.5, seconds=0.1))
    similar = kernel(1.51, compared=1.7, seconds=0.1)
    await client.call_tool("kernel_profile", {"session_id": session, "source": similar})
    result, _ = await told(client, session, similar)
    assert (result["cached"], result["new_best"]) == (True, True)
    assert result["spent"]["evaluations"] == 2
    assert result["spent"]["device_seconds"] == pytest.approx(0.2)
    again, _ = await told(client, session, similar)
    assert again["node"]["id"] == "n2"
    assert len(executor.compared) == 1


async def test_one_that_fails_beside_the_best_is_not_promoted(client: Client) -> None:
    session = await open_session(client)
    await told(client, session, kernel(1.5))
    result, said = await told(client, session, kernel(1.52, beside="crashed"))
    assert result["best"]["id"] == "n1"
    assert "n2 was not timed against n1: it was crashed in that run. n1 stays the best." in said


async def test_who_lost_is_not_extended_however_high_its_median(client: Client) -> None:
    """2.1x [1.8, 2.4] against 2x, and 0.75x of it head-to-head."""
    session = await open_session(client)
    await told(client, session, kernel(2.0))
    _, said = await told(client, session, kernel(2.1, noise=0.143, compared=1.5), parents=["n1"])
    assert "2.1x [1.8, 2.4]" in said
    assert "n2 lost to n1: 0.75x [0.742, 0.758]. n1 stays the best." in said
    for number in range(3):
        said = await asked(client, session)
        assert "best so far n1 with F = 2.000" in said
        assert f"Why this one: n1 at 2x, {number + 1} child" in said
        await told(client, session, kernel(1.0 + number / 10), parents=["n1"])


async def test_a_goal_is_reached_by_what_is_known(client: Client) -> None:
    session = await open_session(client, goal="speedup:2")
    await told(client, session, kernel(2.01))
    assert "The search has ended" not in await asked(client, session)
    # its own interval says less than the meeting
    await told(client, session, kernel(2.05, noise=0.05, compared=2.1))
    assert (
        "Goal reached: n2 is 2.05x (95 % interval 1.95 to 2.15), certainly at least 2.06x; the "
        "goal was 2x."
    ) in await asked(client, session)
