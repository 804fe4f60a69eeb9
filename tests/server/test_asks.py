"""What an agent is asked, as its client sees it: asks that know the tree, hold what is new and
refer to the rest."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp.types import Implementation

from kevolve_mcp.sessions.gathering import FIRST_TOKENS, LATER_TOKENS
from kevolve_mcp.synthesis import estimate_tokens
from knowledge import Library

from .conftest import data, kernel, make_server, open_session, text

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parents[2]
REFERENCE = "return total * scale * self.weight, total"  # of the task
RULE = "keep no packed copy"
OPERATORS = (
    "aten.add.Tensor,aten.pow.Tensor_Scalar,aten.mean.dim,aten.rsqrt.default,aten.mul.Tensor"
)
TASK = (
    f"# fake: name=norm\n# fake: operators={OPERATORS}\n"
    + (ROOT / "examples/rmsnorm_residual/task.py").read_text()
)
LINES = "\n".join(f"sum{i % 7} = wide_row[{i}] * scale[{i}]  # step {i}" for i in range(150))
PAGE = re.compile(r"^## Known: .* \((\S+)\)$", re.MULTILINE)
LINKED = re.compile(r"^## Known: .* \((\S+)\)\s+Found through a link of (?:\S+)\.$", re.MULTILINE)


def long_kernel(speedup: float, number: int, **markers: object) -> str:
    return kernel(speedup, **markers) + LINES.replace(f"wide_row[{number}]", "narrow_row[0]")


@pytest.fixture(scope="module")
def library() -> Library:
    return Library.builtin()


@pytest.fixture(autouse=True)
def one_library(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading the pages takes longer than a test."""
    monkeypatch.setattr(Library, "builtin", lambda **_: library)


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[Client]:
    """In one era: the eras differ in nothing that is shown here."""
    async with Client(make_server(tmp_path), mode="auto") as connected:
        yield connected


async def opened(client: Client, **arguments: Any) -> str:
    policy = {"skills": False, "seed": 1}
    return await open_session(client, task_source=TASK, policy=policy, **arguments)


async def ask(client: Client, session: str, **arguments: object) -> tuple[dict[str, Any], str]:
    """The only ask of the answer, and the text that the agent reads."""
    answer = await client.call_tool("session_next", {"session_id": session, **arguments})
    (found,) = data(answer)["asks"]
    return found["context"], text(answer)


async def submit(
    client: Client, session: str, source: str, ask_id: str = "", **arguments: object
) -> str:
    given = {"session_id": session, "source": source, "ask_id": ask_id, **arguments}
    return str(data(await client.call_tool("kernel_submit", given))["node_id"])


async def answered(client: Client, session: str, source: str, **arguments: object) -> str:
    context, _ = await ask(client, session)
    return await submit(client, session, source, context["id"], **arguments)


async def test_the_first_correct_kernel_is_extended_and_the_ask_says_why(client: Client) -> None:
    session = await opened(client)
    draft, said = await ask(client, session)
    assert draft["role"] == "draft"
    assert "Why this one: no candidate is correct yet to build on." in said
    await submit(
        client,
        session,
        long_kernel(2.2, 1, signals="latency_bound,not_vectorized"),
        draft["id"],
        hypothesis="wide rows",
    )
    for number in range(2, 5):
        context, said = await ask(client, session)
        assert context["parents"][0]["id"] == "n1"
        assert re.search(r"Why this one: n1 at 2.2x, \S+ \S+", said)
        for part in (
            "## Parent n1",
            "correct, F = 2.200",
            "wide rows",
            "Dominant: latency_bound: ",
            "2.20 [2.18, 2.22] faster",
        ):
            assert part in said, part
        await submit(
            client,
            session,
            long_kernel(1.0 + number / 10, number),
            context["id"],
            hypothesis=f"idea {number}",
        )


async def test_it_tells_what_was_tried_failures_included(client: Client) -> None:
    session = await opened(client)
    await answered(client, session, long_kernel(2.0, 1))
    await submit(client, session, long_kernel(1.4, 2), hypothesis="two sums", parents=["n1"])
    await submit(
        client,
        session,
        long_kernel(1.4, 3, status="reward_hack"),
        hypothesis="keep the last answer",
        parents=["n1"],
    )
    context, said = await ask(client, session)
    assert [p["id"] for p in context["parents"]] == ["n1"]
    tried = said.partition("## Tried before")[2]
    assert re.search(
        r"Failed, do not repeat:\n- n3 from n1: reward_hack F = 0.000. keep the last answer; "
        r"cheat.clock",
        tried,
    )
    assert re.search(r"- n2 from n1: correct F = 1.400. two sums", tried)


async def test_it_tells_how_the_rest_of_the_tree_turned_out(client: Client) -> None:
    session = await opened(client)
    said = {"parents": ["n0"]}
    await submit(client, session, long_kernel(1.0, 1, status="incorrect"), **said)
    await submit(client, session, long_kernel(1.3, 2), hypothesis="wide rows", **said)
    await submit(client, session, long_kernel(2.0, 3), **said)
    await submit(
        client, session, long_kernel(1.0, 4, status="crashed"), hypothesis="a table", **said
    )
    context, text_ = await ask(client, session)
    while context["role"] != "improve":
        await submit(client, session, kernel(1.0, ask=context["id"]), context["id"])
        context, text_ = await ask(client, session)
    assert [p["id"] for p in context["parents"]] == ["n3"]
    tried = text_.partition("## Tried before")[2]
    assert "The best of other lineages:\n- n2: 1.3x [1.29, 1.31]; wide rows\n" in tried
    failed = tried.partition("Failed in other lineages:\n")[2]
    assert "- n4: crashed; a table; crash.segmentation_fault\n" in failed
    assert "- n1: incorrect; wrong.values\n" in failed


async def test_many_failures_are_counted_and_the_ask_keeps_its_size(client: Client) -> None:
    session = await opened(client)
    await answered(client, session, long_kernel(2.0, 1))
    for number in range(10):
        await submit(
            client,
            session,
            kernel(1.0, status="incorrect", number=number),
            hypothesis=f"idea {number}: " + "and so on " * 20,
            parents=["n0"],
        )
    context, said = await ask(client, session)
    while context["role"] != "improve":
        await submit(client, session, kernel(1.1, ask=context["id"]), context["id"])
        context, said = await ask(client, session)
    assert estimate_tokens(said) <= LATER_TOKENS
    failed = said.partition("Failed in other lineages:\n")[2].partition("\n\n")[0]
    assert "- n11: incorrect; idea 9: and so on" in failed
    assert re.search(r"- and \d+ more: tree_view\(session_id='[^']+'\)$", failed)


async def test_what_an_author_had_is_referred_to(client: Client) -> None:
    session = await opened(client)
    _, first = await ask(client, session)
    assert all(part in first for part in (REFERENCE, RULE, "## Machine", "## Task norm"))
    await submit(client, session, long_kernel(1.5, 1), "a1")
    context, second = await ask(client, session)
    assert not any(part in second for part in (REFERENCE, RULE, "## Machine", "wide_row[70]"))
    assert context["task"]["source"] == context["parents"][0]["source"] == ""
    assert "- in ask a1: Task norm; Machine; Rules for candidates." in second
    assert f"session_next(session_id='{session}', ask_id='a1') shows them again." in second
    assert (
        f"Source of n1. tree_view(session_id='{session}', node_id='n1', section='source') shows it "
        "again."
    ) in second
    # the calls that it names do what it says
    again, repeated = await ask(client, session, ask_id="a1")
    assert again["id"] == "a1"
    assert REFERENCE in repeated
    shown = await client.call_tool(
        "tree_view", {"session_id": session, "node_id": "n1", "section": "source"}
    )
    assert "wide_row[70]" in text(shown)
    _, whole = await ask(client, session, ask_id="a2", max_tokens=20_000)
    assert all(part in whole for part in (REFERENCE, RULE, "wide_row[70]"))


async def test_the_source_of_anothers_kernel_is_shown_once(tmp_path: Path) -> None:
    server = make_server(tmp_path)
    async with Client(server, client_info=Implementation(name="one", version="1")) as one:
        session = await opened(one)
        await answered(one, session, kernel(1.5) + "its_only_line()\n")
    async with Client(
        make_server(tmp_path), client_info=Implementation(name="two", version="1")
    ) as two:
        context, first = await ask(two, session)
        assert all(
            part in first for part in (REFERENCE, RULE, "## Source of n1", "its_only_line()")
        )
        await submit(two, session, kernel(1.2) + "slower()\n", context["id"])
        context, second = await ask(two, session)
        assert context["parents"][0]["id"] == "n1"
        assert "its_only_line()" not in second
        assert "- in ask a2: Task norm; Source of n1; Rules for candidates." in second


async def test_a_fresh_author_gets_everything(client: Client) -> None:
    session = await opened(client)
    await answered(client, session, long_kernel(1.5, 1))
    _, said = await ask(client, session)
    assert REFERENCE not in said
    context, said = await ask(client, session, fresh=True)
    assert context["id"] == "a3"
    assert all(part in said for part in (REFERENCE, RULE, "## Source of n1"))
    assert "Not repeated here" not in said
    several = await client.call_tool(
        "session_next", {"session_id": session, "count": 2, "max_tokens": 16_000}
    )
    assert text(several).count(REFERENCE) == 2


async def test_an_open_ask_is_given_again_until_a_kernel_was_handed_in(client: Client) -> None:
    session = await opened(client)
    first, said = await ask(client, session)
    again, repeated = await ask(client, session)
    assert (again["id"], first["id"]) == ("a1", "a1")
    assert "still open: you were given it before" in repeated
    assert repeated.split("\n", 1)[1] == said.split("\n", 1)[1]
    several = data(await client.call_tool("session_next", {"session_id": session, "count": 2}))
    assert [a["context"]["id"] for a in several["asks"]] == ["a2", "a3"]
    # answers no ask: its author went on without them
    await submit(client, session, long_kernel(1.5, 1))
    following, said = await ask(client, session)
    assert (following["id"], following["parents"][0]["id"]) == ("a4", "n1")
    await submit(client, session, long_kernel(1.6, 2), "a4")
    assert (await ask(client, session))[0]["id"] == "a5"


async def test_asks_keep_their_size(client: Client) -> None:
    budget = {
        "evaluations": 100,
        "seconds": 9_000,
        "device_seconds": 9_000,
        "tokens": 10_000_000,
        "usd": 1_000,
    }
    named = TASK.replace("name=norm", f"name=norm_{'of_many_rows' * 4}")
    session = await open_session(client, task_source=named, policy={"skills": False}, budget=budget)
    for number in range(8):
        limit = LATER_TOKENS if number else FIRST_TOKENS
        # the first line and what follows included, also where it is given again
        for _ in range(2):
            context, said = await ask(client, session)
            assert estimate_tokens(said) <= limit, number
        markers = (
            {"status": "incorrect"}
            if number == 3
            else {"signals": ["memory_bound", "latency_bound", "not_vectorized"][number % 3]}
        )
        source = long_kernel(1.2 + number / 10, number, **markers)
        await submit(
            client,
            session,
            source,
            context["id"],
            hypothesis=f"idea {number}: " + "and so on " * 20,
        )


async def test_starts_keep_their_size_and_hold_the_task_once(client: Client) -> None:
    session = await open_session(client, task_source=TASK, start_source=kernel(1.1) + LINES)
    for _ in range(2):  # the second one is of a skill
        start, said = await ask(client, session, fresh=True)
        assert start["role"] == "start"
        assert said.count(REFERENCE) == 1
        assert estimate_tokens(said) <= FIRST_TOKENS


async def test_a_start_that_waited_knows_what_was_handed_in_meanwhile(client: Client) -> None:
    session = await opened(client, start_source=kernel(1.1))
    await submit(client, session, kernel(2.0))
    context, said = await ask(client, session, fresh=True)
    assert (context["id"], context["role"]) == ("a1", "start")
    assert "best so far n1 with F = 2.000" in said


async def test_pages_are_new_and_one_of_a_kind_but_for_a_link(client: Client) -> None:
    session = await opened(client)
    seen: list[str] = []
    for number in range(6):
        context, said = await ask(client, session)
        pages, linked = PAGE.findall(said), LINKED.findall(said)
        own = [p for p in pages if p not in linked]
        kinds = ["guidance" if p.startswith("constraints/") else p.split("/")[0] for p in own]
        assert len(set(kinds)) == len(kinds), pages
        assert len(linked) <= 1
        assert not set(pages) & set(seen)
        seen += pages
        await submit(
            client,
            session,
            long_kernel(1.2 + number / 10, number, signals="memory_bound"),
            context["id"],
        )
    assert len(seen) >= 6
    _, said = await ask(client, session)
    assert re.search(r"- pages that still apply: \S+ \(ask a\d\)", said)
