"""Starts evaluated and parameters searched while the author thinks, as a client sees it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client

from kevolve_mcp.executors.fake import FakeExecutor
from kevolve_mcp.sessions import background

from .conftest import data, kernel, make_server, open_session, text

pytestmark = pytest.mark.anyio
FILE = 'TUNABLES = {"A": [1, 2], "B": [0, 1]}\nPARAMS = {"A": 1, "B": 0}\n'
AUTOMATIC = "parameter search"


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "PAUSE_S", 0.0)


@pytest.fixture
async def client(tmp_path: Path, executor: FakeExecutor) -> Any:
    """In one era: the eras differ in nothing that is shown here."""
    async with Client(make_server(tmp_path, executor), mode="auto") as connected:
        yield connected


def tunable(speedup: float = 1.5, **markers: object) -> str:
    return kernel(speedup, **markers) + FILE


async def submit(client: Client, session: str, source: str, **arguments: object) -> dict[str, Any]:
    given = {"session_id": session, "source": source, **arguments}
    return data(await client.call_tool("kernel_submit", given))


async def nodes(client: Client, session: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = data(
        await client.call_tool("tree_view", {"session_id": session, "response_format": "detailed"})
    )["data"].get("nodes", [])
    return found


async def searched(client: Client, session: str, count: int) -> list[dict[str, Any]]:
    """Those that parameter search made, once they are so many."""
    with anyio.fail_after(20):
        while len(found := [n for n in await nodes(client, session) if n["provenance"]]) < count:
            await anyio.sleep(0.02)
    return found


async def grown(client: Client, session: str, count: int) -> list[dict[str, Any]]:
    """All nodes, once they are so many."""
    with anyio.fail_after(20):
        while len(found := await nodes(client, session)) < count:
            await anyio.sleep(0.02)
    return found


async def settled(client: Client, session: str) -> list[dict[str, Any]]:
    """Those that it made once it makes no more."""
    before = -1
    while len(found := await nodes(client, session)) != before:
        before = len(found)
        await anyio.sleep(0.2)
    return [n for n in found if n["provenance"]]


async def test_settings_are_children_and_the_next_ask_tells_of_them(client: Client) -> None:
    session = await open_session(client)
    await submit(client, session, tunable())
    found = await searched(client, session, 3)
    assert {n["provenance"] for n in found} == {AUTOMATIC}
    assert {n["role"] for n in found} == {"tune"}
    assert len({(n["params"]["A"], n["params"]["B"]) for n in found}) == 3  # and the file's own
    assert found[0]["hypothesis"] == "n1 with A=2, B=1 (corner)"
    tree = text(await client.call_tool("tree_view", {"session_id": session}))
    assert tree.count(f"[{AUTOMATIC}]") == 3
    said = text(await client.call_tool("session_next", {"session_id": session}))
    assert re.search(
        r"Parameter search meanwhile: tuned n1: 3 settings, best n\d [\d.]+x \[.*\] \(A=\d, B=\d\)",
        said,
    )
    # its author has the text, which differs in values alone
    assert "## Source of" not in said
    assert not re.search(r"- n\d from n1:", said)


async def test_whoever_thinks_meanwhile_is_not_asked_for_other_parameters(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An author that has seen nothing of the session may be one that only computes them."""
    monkeypatch.setattr(background, "PAUSE_S", 30.0)
    session = await open_session(client)
    await submit(client, session, tunable())
    said = text(await client.call_tool("session_next", {"session_id": session}))
    assert "(improve) for" in said
    fresh = {"session_id": session, "fresh": True}
    assert "(tune) for" in text(await client.call_tool("session_next", fresh))


async def test_an_author_that_submits_does_not_wait(client: Client, executor: FakeExecutor) -> None:
    session = await open_session(client)
    await submit(client, session, tunable(seconds=0.05))
    slow = Slowly(executor)
    await submit(client, session, tunable(1.6, seconds=0.05))
    await slow.started()
    with anyio.fail_after(20):
        done = await submit(client, session, kernel(1.9))
    assert done["state"] == "done"
    assert done["node_id"] == f"n{len(await nodes(client, session))}"
    assert executor.cancelled
    assert not any(n["candidate"] in executor.cancelled for n in await nodes(client, session))


async def test_a_setting_under_way_leaves_the_asks_their_budget(
    client: Client, executor: FakeExecutor
) -> None:
    session = await open_session(client, budget={"evaluations": 3}, policy={"tune": 1})
    slow = Slowly(executor)
    await submit(client, session, tunable())
    await slow.started()  # as the second of three
    two = {"session_id": session, "count": 2}
    asks = data(await client.call_tool("session_next", two))["asks"]
    slow.finish()
    for i, ask in enumerate(asks):
        await submit(client, session, kernel(1.6 + i / 10), ask_id=ask["context"]["id"])
    await settled(client, session)
    assert len(asks) == 2
    assert len(await nodes(client, session)) == 3


async def test_a_known_kernel_takes_the_place_of_a_setting_under_way(
    client: Client, executor: FakeExecutor
) -> None:
    session = await open_session(client, budget={"evaluations": 2}, policy={"tune": 1})
    known = {"session_id": session, "source": kernel(1.7)}
    await client.call_tool("kernel_profile", known)
    slow = Slowly(executor)
    await submit(client, session, tunable())
    await slow.started()
    await submit(client, session, kernel(1.7))
    slow.finish()
    assert await settled(client, session) == []
    assert len(await nodes(client, session)) == 2


async def test_a_place_that_went_elsewhere_is_not_taken_by_a_setting(
    client: Client, executor: FakeExecutor, tmp_path: Path
) -> None:
    session = await open_session(client, budget={"evaluations": 2}, policy={"tune": 1})
    slow = Slowly(executor)
    await submit(client, session, tunable())
    await slow.started()
    async with Client(make_server(tmp_path, FakeExecutor())) as other:
        asked = await other.call_tool("session_next", {"session_id": session})
        slow.finish()
        assert await settled(client, session) == []
        ask = data(asked)["asks"][0]["context"]["id"]
        await submit(other, session, kernel(1.8), ask_id=ask)
    assert len(await nodes(client, session)) == 2


class Slowly:
    """From now on what parameter search evaluates, or everything, takes longer than a test may."""

    def __init__(self, executor: FakeExecutor, *, everything: bool = False) -> None:
        self._executor, self._all = executor, everything
        self._evaluate = executor.evaluate
        self._begun, self._ended = anyio.Event(), anyio.Event()
        executor.evaluate = self  # type: ignore[method-assign]

    async def __call__(self, task: Any, request: Any, target: str, **more: Any) -> Any:
        if not self._all and request.candidate.params() in ({}, {"A": 1, "B": 0}):
            return await self._evaluate(task, request, target, **more)
        self._begun.set()
        try:
            await self._ended.wait()
        except anyio.get_cancelled_exc_class():
            self._executor.cancelled.append(request.candidate.digest)
            raise
        return await self._evaluate(task, request, target, **more)

    def finish(self) -> None:
        """What is under way ends well now."""
        self.over()
        self._ended.set()

    def over(self) -> None:
        self._executor.evaluate = self._evaluate  # type: ignore[method-assign]

    async def started(self) -> None:
        with anyio.fail_after(20):
            await self._begun.wait()


async def test_another_sessions_work_only_interrupts_it(
    client: Client, executor: FakeExecutor
) -> None:
    session = await open_session(client)
    other = await open_session(client, new=True)
    slow = Slowly(executor)
    await submit(client, session, tunable())
    await slow.started()
    slow.over()
    await submit(client, other, kernel(1.9))
    assert len(executor.cancelled) == 1
    await searched(client, session, 3)


async def test_cancel_finish_and_close_end_it(
    client: Client, executor: FakeExecutor, tmp_path: Path
) -> None:
    session = await open_session(client)
    slow = Slowly(executor)
    await submit(client, session, tunable())
    await slow.started()
    await client.call_tool("job_cancel", {"session_id": session})
    assert len(executor.cancelled) == 1
    slow = Slowly(executor)
    await client.call_tool("session_next", {"session_id": session})
    await slow.started()
    ended = data(await client.call_tool("session_finish", {"session_id": session}))
    assert ended["state"] == "done"
    assert len(executor.cancelled) == 2
    assert await settled(client, session) == []


async def test_a_server_that_ends_leaves_nodes_and_the_next_one_goes_on(
    executor: FakeExecutor, tmp_path: Path
) -> None:
    async with Client(make_server(tmp_path, executor)) as client:
        session = await open_session(client)
        slow = Slowly(executor)
        await submit(client, session, tunable())
        await slow.started()
    assert executor.cancelled
    again = FakeExecutor()
    async with Client(make_server(tmp_path, again)) as client:
        assert await settled(client, session) == []  # nobody thinks yet
        await client.call_tool("session_next", {"session_id": session})
        assert len(await searched(client, session, 3)) == 3
        jobs = data(await client.call_tool("job_wait", {}))["jobs"]
        assert {job["kind"] for job in jobs} == {"open", "submit"}


async def test_the_share_of_the_budget_bounds_it(client: Client) -> None:
    session = await open_session(client, budget={"evaluations": 5})
    await submit(client, session, tunable())
    await searched(client, session, 1)
    assert len(await settled(client, session)) == 1
    session = await open_session(client, policy={"tune": 0}, new=True)
    await submit(client, session, tunable())
    assert await settled(client, session) == []
    answer = await client.call_tool(
        "session_open", {"task_source": "class Model: pass", "policy": {"tune": 2}}
    )
    assert "a share of the budget" in text(answer)


async def test_a_setting_is_measured_as_usual_however_wide_its_interval_is(
    client: Client, executor: FakeExecutor
) -> None:
    """Its author waits for a better figure of a kernel; nobody waits for a setting."""
    session = await open_session(client)
    given = await submit(client, session, tunable(noise=0.3))
    found = await searched(client, session, 3)
    of_settings = {node["candidate"] for node in found}
    asked = [r for r in executor.requests if r.purpose == "search"]
    assert given["result"]["evaluation"]["processes"] == 15
    assert {r.effort for r in asked if r.candidate.digest in of_settings} == {1.0}


async def test_a_start_is_evaluated_meanwhile_and_the_first_ask_builds_on_it(
    client: Client, executor: FakeExecutor
) -> None:
    slow = Slowly(executor, everything=True)
    session = await open_session(client, start_source=kernel(1.2))
    await slow.started()
    asked: list[dict[str, Any]] = []

    async def ask() -> None:
        answer = await client.call_tool("session_next", {"session_id": session})
        asked.append(data(answer))

    async with anyio.create_task_group() as group:
        group.start_soon(ask)
        await anyio.sleep(0.2)
        assert not asked  # what it should write follows from the start
        slow.finish()
    (context,) = (each["context"] for each in asked[0]["asks"])
    assert (context["role"], [p["id"] for p in context["parents"]]) == ("improve", ["n1"])
    (start,) = await nodes(client, session)
    assert (start["role"], start["origin"]["kind"]) == ("start", "user_file")
    assert start["fitness"] == pytest.approx(1.2)


async def test_a_kernel_of_its_author_comes_before_a_start(
    client: Client, executor: FakeExecutor
) -> None:
    slow = Slowly(executor, everything=True)
    session = await open_session(client, start_source=kernel(1.2))
    await slow.started()
    slow.over()
    await submit(client, session, kernel(1.9))
    first, start = await grown(client, session, 2)
    assert len(executor.cancelled) == 1
    assert (first["fitness"], start["role"]) == (pytest.approx(1.9), "start")


async def test_starts_leave_half_of_the_budget_to_authors(client: Client) -> None:
    session = await open_session(client, start_source=kernel(1.2), budget={"evaluations": 1})
    assert await settled(client, session) == []
    assert await nodes(client, session) == []
    answer = data(await client.call_tool("session_next", {"session_id": session}))
    assert [ask["context"]["role"] for ask in answer["asks"]] == ["start"]


async def test_a_start_that_a_dying_server_evaluated_is_evaluated_by_the_next(
    executor: FakeExecutor, tmp_path: Path
) -> None:
    async with Client(make_server(tmp_path, executor)) as client:
        slow = Slowly(executor, everything=True)
        session = await open_session(client, start_source=kernel(1.2))
        await slow.started()
    assert executor.cancelled
    async with Client(make_server(tmp_path, FakeExecutor())) as client:
        answer = data(await client.call_tool("session_next", {"session_id": session}))
        assert [ask["context"]["role"] for ask in answer["asks"]] == ["improve"]
        assert [n["role"] for n in await nodes(client, session)] == ["start"]


@pytest.mark.parametrize("fresh", [False, True])
async def test_an_author_that_asks_at_once_gets_no_start_to_submit(
    client: Client, monkeypatch: pytest.MonkeyPatch, fresh: bool
) -> None:
    """Those of a driver work side by side, and have nothing to read: they take starts."""
    monkeypatch.setattr(background, "PAUSE_S", 30.0)
    session = await open_session(client, start_source=kernel(1.2))
    await client.call_tool("kernel_check", {"session_id": session, "source": kernel(1.5)})
    asked = {"session_id": session, "fresh": fresh}
    answer = data(await client.call_tool("session_next", asked))
    expected = "start" if fresh else "improve"
    assert [ask["context"]["role"] for ask in answer["asks"]] == [expected]


async def test_an_author_that_has_a_correct_kernel_gets_no_start_to_submit(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(background, "PAUSE_S", 30.0)
    session = await open_session(client, start_source=kernel(1.2))
    await submit(client, session, kernel(1.5))
    answer = data(await client.call_tool("session_next", {"session_id": session}))
    assert [ask["context"]["role"] for ask in answer["asks"]] == ["improve"]


async def test_what_is_far_behind_wrong_or_fixed_is_not_tuned(client: Client) -> None:
    session = await open_session(client)
    await submit(client, session, kernel(4.0))
    await submit(client, session, tunable(1.5))
    await submit(client, session, tunable(1.5, status="incorrect"))
    assert await settled(client, session) == []
