"""A coding agent connected over stdio, played through the whole workflow: an orderly one, one whose
client cuts every call short, and one whose connection breaks while it writes."""

from __future__ import annotations

import re
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, MCPError, StdioServerParameters
from mcp.types import REQUEST_TIMEOUT

from .conftest import EVERY_ERA, TASK, data, kernel, text

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parents[2]
START = "# fake: speedup=1.1\nclass ModelNew: pass\n"


def server(home: Path) -> StdioServerParameters:
    return StdioServerParameters(
        command=sys.executable, args=["-m", "tests.server.fake_server", str(home)], cwd=ROOT
    )


class Agent:
    """Calls tools and does what their answers say. cut_s: when its client gives a call up, whatever
    the server meant to wait; then it makes the call again, as agents do. lost: the tools whose
    answers it never saw."""

    def __init__(self, client: Client, cut_s: float | None = None) -> None:
        self._client = client
        self._cut_s = cut_s
        self.lost: list[str] = []
        self.calls: list[str] = []
        self.shown: list[str] = []

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """The structured answer, once there is one; a running job is waited for."""
        while True:
            self.calls.append(tool)
            try:
                result = await self._client.call_tool(tool, arguments, self._cut_s)
            except MCPError as error:
                if error.code != REQUEST_TIMEOUT:
                    raise
                self.lost.append(tool)
                continue
            self.shown.append(text(result))
            answer = data(result)
            if answer.get("state") != "running":
                return answer
            assert answer["next"].startswith("job_wait("), answer["next"]
            tool, arguments = "job_wait", {"job_id": answer["job_id"], "wait_s": 20}

    async def search(self, session: str, **markers: object) -> list[str]:
        """Answer asks until the search has ended; the nodes that came of it."""
        nodes: list[str] = []
        while True:
            batch = await self.call("session_next", session_id=session)
            if batch["ended"]:
                assert batch["next"].startswith("session_finish(")
                return nodes
            (ask,) = batch["asks"]
            nodes.append(await self.answer(session, ask["context"], len(nodes), **markers))

    async def answer(
        self, session: str, context: dict[str, Any], number: int, **markers: object
    ) -> str:
        """One ask. A start brings its kernel; anything else gets a kernel that is a little faster
        than the last, checked first, which costs no evaluation."""
        ask = context["id"]
        if context["role"] == "start":
            told = await self.call("kernel_submit", session_id=session, ask_id=ask)
        else:
            source = kernel(1.2 + number / 10, **markers) + f"# for {ask}\n"
            checked = await self.call("kernel_check", session_id=session, source=source)
            assert result_of(checked)["evaluation"]["status"] == "correct"
            words = {
                "hypothesis": f"idea {number}",
                "predicted_speedup": 1.1,
                "rationale": "seen in the profile",
            }
            spent = {"tokens": 1000, "usd": 0.01}
            told = await self.call(
                "kernel_submit", session_id=session, ask_id=ask, source=source, usage=spent, **words
            )
        return str(result_of(told)["node"]["id"])


def result_of(answer: dict[str, Any]) -> dict[str, Any]:
    result: dict[str, Any] = answer["result"]
    return result


@asynccontextmanager
async def agent(home: Path, mode: Any = "auto", cut_s: float | None = None) -> AsyncIterator[Agent]:
    async with Client(server(home), mode=mode) as client:
        yield Agent(client, cut_s)


async def opened(agent: Agent, **arguments: Any) -> str:
    answer = await agent.call(
        "session_open", task_source=TASK, start_source=START, policy={"skills": False}, **arguments
    )
    session = answer.get("session") or result_of(answer)["session"]
    return str(session["id"])


@pytest.mark.parametrize("mode", EVERY_ERA)
async def test_the_whole_workflow(tmp_path: Path, mode: str) -> None:
    async with agent(tmp_path, mode) as me:
        assert await me.call("target_describe")
        session = await opened(me, budget={"evaluations": 5, "usd": 1.0})
        nodes = await me.search(session)
        assert nodes == ["n2", "n3", "n4", "n5"]  # n1 is the start, which the server evaluates
        pages = await me.call("knowledge_search", signals=["memory_bound"])
        assert await me.call("knowledge_read", page_id=pages["hits"][0]["id"])
        node = await me.call("tree_view", session_id=session, node_id="n5", section="source")
        assert "for a5" in str(node["data"]) or "for a5" in me.shown[-1]
        tree = await me.call("tree_view", session_id=session)
        assert tree["data"]["session"]["spent"]["tokens"] == 4000
        assert tree["data"]["session"]["spent"]["usd"] == pytest.approx(0.04)
        ending = await me.call("session_finish", session_id=session, include_files=True)
        finished = result_of(ending)
        assert finished["node"]["id"] == "n5"
        assert "Dispatch overhead per call, in us with warm caches: " in me.shown[-1]
        assert (Path(finished["package"]) / "manifest.json").is_file()
        assert "kernel.py" in finished["contents"]
        assert (await me.call("session_finish", session_id=session))["package"] == ending["package"]
        assert set(me.calls) >= {
            "session_open",
            "session_next",
            "kernel_check",
            "kernel_submit",
            "session_finish",
        }


async def test_its_budget_of_money_ends_the_search(tmp_path: Path) -> None:
    async with agent(tmp_path) as me:
        session = await opened(me, budget={"usd": 0.03})
        assert len(await me.search(session)) == 3
        assert "0.03 of 0.03 US dollars" in me.shown[-1]


async def test_a_client_that_cuts_every_call_loses_nothing(tmp_path: Path) -> None:
    """Opening, evaluating and finishing each take longer than the client has patience."""
    slow_task = TASK.replace("name=scale", "name=scale\n# fake: seconds=1.2")
    async with agent(tmp_path, cut_s=0.5) as me:
        answer = await me.call(
            "session_open",
            task_source=slow_task,
            start_source=START,
            policy={"skills": False},
            budget={"evaluations": 3},
        )
        session = str((answer.get("session") or result_of(answer)["session"])["id"])
        assert me.lost
        lost = len(me.lost)
        nodes = await me.search(session, seconds=0.9)
        assert nodes == ["n2", "n3"]
        assert len(me.lost) > lost
        finished = result_of(await me.call("session_finish", session_id=session))
        tree = await me.call("tree_view", session_id=session)
        assert tree["data"]["session"]["nodes"] == 3  # what was cut and repeated is there once
        # on a busy machine an ask is lost as well
        assert tree["data"]["session"]["open_asks"] <= me.lost.count("session_next")
        assert tree["data"]["session"]["spent"]["tokens"] == 2000
        assert (Path(finished["package"]) / "manifest.json").is_file()


async def test_a_lost_ask_is_read_again_after_reconnecting(tmp_path: Path) -> None:
    async with agent(tmp_path) as me:
        session = await opened(me, budget={"evaluations": 4})
        first = await me.call("session_next", session_id=session)
        await me.answer(session, first["asks"][0]["context"], 0)
        batch = await me.call("session_next", session_id=session)
        lost = me.shown[-1]
        ask = batch["asks"][0]["context"]["id"]
    async with agent(tmp_path) as again:
        # it need not remember the session either
        assert await opened(again, budget={"evaluations": 4}) == session
        for arguments in ({}, {}, {"ask_id": ask}):  # nor its ask
            batch = await again.call("session_next", session_id=session, **arguments)
            assert batch["asks"][0]["context"]["id"] == ask
            whole = body(again.shown[-1])
            assert whole == body(again.shown[1])
        assert whole.splitlines()[:2] == body(lost).splitlines()[:2]
        # a new author has not seen what the one before it was given
        assert "class Model: pass" in whole
        assert "class Model: pass" not in body(lost)
        assert await again.answer(session, batch["asks"][0]["context"], 1) == "n3"
        assert await again.search(session) == ["n4"]
        finished = result_of(await again.call("session_finish", session_id=session))
        assert [n["id"] for n in finished["lineage"]]


async def test_an_answer_lost_with_the_connection_is_not_evaluated_twice(
    tmp_path: Path,
) -> None:
    source = kernel(1.7, seconds=1.0)
    async with agent(tmp_path) as me:
        session = await opened(me)
        job = await me._client.call_tool(
            "kernel_submit", {"session_id": session, "source": source, "wait_s": 0}
        )
        assert data(job)["state"] == "running"
    async with agent(tmp_path) as again:
        first = result_of(await again.call("kernel_submit", session_id=session, source=source))
        second = result_of(await again.call("kernel_submit", session_id=session, source=source))
        assert first["node"]["id"] == second["node"]["id"] == "n1"


async def test_a_spend_that_is_none_is_refused(tmp_path: Path) -> None:
    async with agent(tmp_path) as me:
        session = await opened(me)
        for spent in ({"tokens": -1}, {"dollars": 1}, {"usd": float("inf")}):
            arguments = {"session_id": session, "source": kernel(), "usage": spent}
            result = await me._client.call_tool("kernel_submit", arguments)
            assert result.is_error
            assert "usage" in text(result)


def body(shown: str) -> str:
    """The ask itself, without the answer's first and last line."""
    found = re.search(r"^## Ask .*(?=^Next: )", shown, re.MULTILINE | re.DOTALL)
    assert found is not None, shown
    return found[0]
