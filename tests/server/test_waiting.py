"""Bounded waits, job ids, progress, cancellation."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest
from mcp import Client

from kevolve_mcp.executors.fake import FakeExecutor
from kevolve_mcp.server import build_server
from kevolve_mcp.sessions import Service
from kevolve_mcp.settings import Settings

from .conftest import data, kernel, open_session, refused, text

pytestmark = pytest.mark.anyio


async def test_a_slow_tool_hands_over_a_job(client: Client) -> None:
    session = await open_session(client)
    arguments = {"session_id": session, "source": kernel(seconds=0.8), "wait_s": 0}
    running = await client.call_tool("kernel_submit", arguments)
    job = data(running)["job_id"]
    assert data(running)["state"] == "running"
    assert data(running)["eta_s"] > 0
    assert data(running)["next"] == f"job_wait(job_id={job!r}, wait_s=45)"
    assert text(running).startswith(f"Job {job} (submit for {session}) is running")
    assert data(await client.call_tool("kernel_submit", arguments))["job_id"] == job
    assert (
        data(await client.call_tool("job_wait", {"job_id": job, "wait_s": 0}))["state"] == "running"
    )
    done = await client.call_tool("job_wait", {"session_id": session})
    assert (data(done)["state"], data(done)["kind"]) == ("done", "submit")
    assert data(done)["result"]["node"]["id"] == "n1"
    assert text(await client.call_tool("job_wait", {"job_id": job})) == text(done)
    assert [j["id"] for j in data(await client.call_tool("job_wait", {}))["jobs"]] == [job, "j1"]


async def test_progress_is_reported(client: Client) -> None:
    seen: list[tuple[float, str | None]] = []

    async def listen(progress: float, total: float | None, message: str | None) -> None:
        seen.append((progress, message))

    session = await open_session(client)
    arguments = {"session_id": session, "source": kernel(seconds=0.8)}
    await client.call_tool("kernel_submit", arguments, progress_callback=listen)
    assert seen
    assert ":" in (seen[0][1] or "")
    assert 0 < seen[0][0] <= 1


async def test_cancelling_a_wait_leaves_the_job(client: Client, executor: FakeExecutor) -> None:
    session = await open_session(client)
    with anyio.move_on_after(0.3) as scope:
        await client.call_tool(
            "kernel_submit", {"session_id": session, "source": kernel(seconds=1.0)}
        )
    assert scope.cancelled_caught
    done = await client.call_tool("job_wait", {"session_id": session})
    assert data(done)["state"] == "done"
    assert executor.cancelled == []


async def test_job_cancel_kills_the_worker(client: Client, executor: FakeExecutor) -> None:
    session = await open_session(client)
    arguments = {"session_id": session, "source": kernel(seconds=60), "wait_s": 0.3}
    job = data(await client.call_tool("kernel_submit", arguments))["job_id"]
    cancelled = await client.call_tool("job_cancel", {"session_id": session})
    assert text(cancelled).startswith(f"1 job(s) cancelled: {job}")
    assert len(executor.cancelled) == 1
    after = await client.call_tool("job_wait", {"job_id": job})
    assert data(after)["state"] == "cancelled"
    assert "again" in data(after)["next"]


async def test_a_failed_job_is_an_error(client: Client) -> None:
    session = await open_session(client)
    error = refused(
        await client.call_tool(
            "kernel_submit", {"session_id": session, "source": kernel(unavailable=9)}
        )
    )
    assert (error["code"], error["retryable"]) == ("evaluator_unavailable", True)


async def test_the_cap_of_the_settings_holds(tmp_path: Path, executor: FakeExecutor) -> None:
    settings = Settings(home=tmp_path, max_wait_s=0.2)
    async with Client(
        build_server(settings, lambda s: Service(s, lambda python, near: executor))
    ) as client:
        session = await open_session(client)
        arguments = {"session_id": session, "source": kernel(seconds=60), "wait_s": 3600}
        with anyio.fail_after(20):
            assert data(await client.call_tool("kernel_submit", arguments))["state"] == "running"
