"""Kernels that agents hand in without saying where they come from, as a client sees it."""

from __future__ import annotations

import pytest
from mcp import Client

from .conftest import data, open_session, text

pytestmark = pytest.mark.anyio


def long_kernel(speedup: float, lines: list[str]) -> str:
    return "\n".join([f"# fake: speedup={speedup}", "class ModelNew: pass", *lines, ""])


ROWS = [f"row{i} = sum(values[{i}]) / width" for i in range(12)]
TILES = [f"tile{i} = block(left[{i}], right[{i}])" for i in range(12)]


async def submit(
    client: Client, session: str, source: str, **arguments: object
) -> tuple[dict[str, object], str]:
    answer = await client.call_tool(
        "kernel_submit", {"session_id": session, "source": source, **arguments}
    )
    result = data(answer)["result"]
    return {
        **result["node"],
        **{k: result[k] for k in ("nearest", "likeness", "assumed_root")},
    }, text(answer)


async def test_a_kernel_is_placed_by_likeness_and_the_answer_says_so(client: Client) -> None:
    session = await open_session(client)
    first, said = await submit(client, session, long_kernel(1.2, ROWS))
    assert first["parents"] == []
    assert "child of the root" in said
    other, said = await submit(client, session, long_kernel(1.3, [*TILES, *ROWS[:3]]))
    assert other["parents"] == []
    assert "since no earlier node has 50% of its lines (n1 has 20%)" in said
    child, said = await submit(client, session, long_kernel(1.5, [*ROWS[:9], *TILES[:3]]))
    assert (child["parents"], child["role"]) == (["n1"], "improve")
    assert (
        "Neither ask_id nor parents was given: placed under n1, which has 75% of its lines." in said
    )
    assert "Against its parent: 1.25x" in said
    again, said = await submit(client, session, long_kernel(1.5, [*ROWS[:9], *TILES[:3]]))
    assert again["id"] == child["id"]
    assert "placed under n1, which has 75%" in said


async def test_named_parents_and_the_named_root_are_taken_as_they_are(client: Client) -> None:
    session = await open_session(client)
    await submit(client, session, long_kernel(1.2, ROWS))
    await submit(client, session, long_kernel(1.3, TILES))
    named, said = await submit(client, session, long_kernel(1.4, ROWS), parents=["n2"])
    assert (named["parents"], named["likeness"]) == (["n2"], None)
    assert "placed under" not in said
    root, said = await submit(client, session, long_kernel(1.6, ROWS), parents=["n0"])
    assert (root["parents"], root["likeness"]) == ([], None)
    assert "child of the root" not in said


async def test_a_fixed_failure_hangs_under_it_as_a_repair(client: Client) -> None:
    session = await open_session(client)
    await submit(client, session, "# fake: status=incorrect\n" + long_kernel(1.2, ROWS))
    fixed, _ = await submit(client, session, long_kernel(1.2, ROWS))
    assert (fixed["parents"], fixed["role"]) == (["n1"], "repair")


async def test_short_texts_are_not_compared(client: Client) -> None:
    session = await open_session(client)
    await submit(client, session, long_kernel(1.2, ROWS[:2]))
    second, said = await submit(client, session, long_kernel(1.4, ROWS[:2]))
    assert second["parents"] == []
    assert said.count("child of the root. Name parents=[...]") == 1
