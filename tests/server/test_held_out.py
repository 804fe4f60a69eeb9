"""Held-out cases, through the tools: not shown before the session is finished."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from mcp import Client

from harness.types import Evaluation, EvaluationRequest, Task
from kevolve_mcp.errors import EvaluatorUnavailable
from kevolve_mcp.executors.base import Progress
from kevolve_mcp.executors.fake import FakeExecutor

from .conftest import TASK, data, kernel, make_server, open_session, refused, text

pytestmark = pytest.mark.anyio
HELD_OUT = f"# fake: held_out=edge\n{TASK}"
SECTIONS = ("", "cases", "log", "profile", "stages", "assembly")


async def _pages(client: Client, session: str, evaluation: str) -> str:
    """All that the tools tell of an evaluation."""
    found = []
    for section in SECTIONS:
        asked = {"session_id": session, "evaluation_id": evaluation, "section": section}
        answer = await client.call_tool("tree_view", asked)
        found += [text(answer), json.dumps(data(answer))]
    return "\n".join(found)


async def _submitted(client: Client, source: str) -> str:
    session = await open_session(client, task_source=HELD_OUT)
    await client.call_tool("kernel_submit", {"session_id": session, "source": source})
    return session


async def test_a_failed_confirmation_says_no_more_than_that(client: Client) -> None:
    session = await _submitted(client, kernel(2.0, confirm="incorrect", wrong="edge"))
    finish = {"session_id": session}
    answer = await client.call_tool("session_finish", finish)
    assert "n1: incorrect: a held-out case was wrong" in refused(answer)["message"]
    shown = await _pages(client, session, "e2")
    assert "a held-out case was wrong" in shown
    jobs = text(await client.call_tool("job_wait", {"session_id": session}))
    for told in (text(answer), shown, jobs):
        assert not [word for word in ("edge", "row 7", "0.5") if word in told]

    await client.call_tool("kernel_submit", {"session_id": session, "source": kernel(1.2)})
    data(await client.call_tool("session_finish", finish))
    shown = await _pages(client, session, "e2")
    assert "- edge: wrong row 7 is off by 0.5" in shown
    assert "[verify] case edge: row 7" in shown


async def test_a_case_that_authors_see_is_told_as_usual(client: Client) -> None:
    session = await _submitted(client, kernel(2.0, confirm="incorrect", wrong="default"))
    answer = await client.call_tool("session_finish", {"session_id": session})
    assert "case default: row 7 is off by 0.5" in refused(answer)["message"]
    assert "- default: wrong row 7 is off by 0.5" in await _pages(client, session, "e2")


async def test_a_confirmation_that_went_well_shows_none_either(tmp_path: Path) -> None:
    class Breaks(FakeExecutor):
        async def evaluate(
            self,
            task: Task,
            request: EvaluationRequest,
            target: str,
            *,
            progress: Progress | None = None,
        ) -> Evaluation:
            if request.purpose == "export":
                raise EvaluatorUnavailable("gone", "Try again.")
            return await super().evaluate(task, request, target, progress=progress)

    async with Client(make_server(tmp_path, Breaks())) as client:
        session = await _submitted(client, kernel(2.0))
        refused(await client.call_tool("session_finish", {"session_id": session}))
        shown = await _pages(client, session, "e2")
        assert "e2: correct, confirm" in shown
        assert "edge" not in shown
        # nor once it was thrown away: another session would begin where this one ended
        await client.call_tool("session_finish", {"session_id": session, "discard": True})
        assert "edge" not in await _pages(client, session, "e2")
