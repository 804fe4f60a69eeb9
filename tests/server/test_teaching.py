"""Errors: what was wrong, what is accepted, what to do next."""

from __future__ import annotations

from pathlib import Path

import pytest
from mcp import Client

from kevolve_mcp.errors import UsageError
from kevolve_mcp.executors.fake import FakeExecutor
from kevolve_mcp.server.serving import check_shadowing

from .conftest import TASK, kernel, make_server, open_session, refused

pytestmark = pytest.mark.anyio


async def test_unknown_and_wrong_arguments(client: Client) -> None:
    error = refused(
        await client.call_tool(
            "session_next", {"session_id": "x-1", "cuont": 3, "max_tokens": "many"}
        )
    )
    assert error["code"] == "bad_arguments"
    assert "unknown argument 'cuont', did you mean 'count'?" in error["message"]
    assert "max_tokens" in error["message"]
    assert (
        error["hint"]
        == "Arguments of session_next: session_id, count, ask_id, fresh, max_tokens, budget."
    )
    error = refused(await client.call_tool("kernel_submit", {}))
    assert "argument 'session_id' is required" in error["message"]
    error = refused(
        await client.call_tool(
            "session_open", {"task_source": TASK, "policy": {"library_calls": "maybe"}}
        )
    )
    assert "library_calls" in error["message"]
    error = refused(
        await client.call_tool("session_open", {"task_source": TASK, "policy": {"memory_gib": 0}})
    )
    assert "memory_gib must be positive" in error["message"]
    error = refused(
        await client.call_tool("session_open", {"task_source": TASK, "budget": {"evals": 3}})
    )
    assert "evaluations" in error["message"]
    error = refused(await client.call_tool("session_open", {"task_source": TASK, "goal": "fast"}))
    assert "speedup:2" in error["message"]


@pytest.mark.parametrize(
    ("value", "accepted"),
    [
        (0, "greater than 0"),
        ("nan", "less than or equal to 1000000"),
        ("inf", "less than or equal to 1000000"),
        (1e300, "less than or equal to 1000000"),
        (1_000_001, "less than or equal to 1000000"),
    ],
)
async def test_a_prediction_is_a_factor(client: Client, value: object, accepted: str) -> None:
    session = await open_session(client)
    given = {"session_id": session, "source": kernel(), "predicted_speedup": value}
    error = refused(await client.call_tool("kernel_submit", given))
    assert f"predicted_speedup: Input should be {accepted}" in error["message"]


async def test_a_page_of_text_as_an_argument_is_not_repeated(client: Client) -> None:
    for long in ("x" * 200_000, "many words " * 20_000):
        for name, arguments in {
            "session_next": {"session_id": long},
            "session_open": {"task_source": TASK, "target": long},
            "kernel_submit": {"session_id": "x-1", "source": kernel(), "parents": [long]},
            "knowledge_read": {"id": long},
            "job_status": {"job_id": long},
        }.items():
            error = refused(await client.call_tool(name, arguments))
            assert len(error["message"] + error["hint"] + error["next"]) < 8_000, name


async def test_unknown_tools(client: Client) -> None:
    error = refused(await client.call_tool("kernel_sumbit", {}))
    assert error["code"] == "unknown_tool"
    assert "did you mean 'kernel_submit'?" in error["message"]
    assert "session_open" in error["hint"]


async def test_wrong_paths_and_sources(client: Client, tmp_path: Path) -> None:
    (tmp_path / "task.py").write_text(TASK)
    error = refused(await client.call_tool("session_open", {"task_path": "task.py"}))
    assert "absolute" in error["message"]
    error = refused(await client.call_tool("session_open", {"task_path": str(tmp_path / "tsk.py")}))
    assert "near: task.py" in error["message"]
    assert "task_source" in error["next"]
    error = refused(
        await client.call_tool("session_open", {"task_path": str(tmp_path), "task_source": TASK})
    )
    assert "both given" in error["message"]
    error = refused(await client.call_tool("session_open", {}))
    assert "task_path" in error["next"]
    error = refused(await client.call_tool("session_open", {"task_source": "def nothing(): pass"}))
    assert (error["code"], bool(error["hint"])) == ("task_refused", True)


async def test_unknown_ids(client: Client) -> None:
    session = await open_session(client)
    await client.call_tool("kernel_submit", {"session_id": session, "source": kernel()})
    for tool, arguments, hint in (
        ("session_next", {"session_id": session + "0"}, session),
        ("tree_view", {"session_id": session, "node_id": "n12"}, "n1"),
        (
            "kernel_submit",
            {"session_id": session, "source": kernel(), "ask_id": "a4"},
            "session_next",
        ),
        ("job_wait", {"job_id": "j77"}, "job_wait"),
        ("knowledge_read", {"page_id": "guidance/vectorisation"}, "guidance/vectorization"),
    ):
        error = refused(await client.call_tool(tool, arguments))
        assert error["code"] == "not_found", tool
        assert hint in error["hint"] + error["next"], tool


async def test_job_cancel_needs_a_name(client: Client) -> None:
    assert "job_id or session_id" in refused(await client.call_tool("job_cancel", {}))["message"]


async def test_a_fault_of_the_server_is_named_as_one(tmp_path: Path) -> None:
    class Faulty(FakeExecutor):
        async def interpreters(self) -> tuple[()]:  # type: ignore[override]
            raise RuntimeError("unforeseen")

    async with Client(make_server(tmp_path, Faulty())) as client:
        error = refused(await client.call_tool("target_describe", {}))
        assert (error["code"], error["message"]) == ("internal", "RuntimeError: unforeseen")
        assert not (await client.call_tool("tree_view", {})).is_error


def test_a_foreign_package_of_the_same_name_is_refused() -> None:
    check_shadowing("harness", "knowledge")
    with pytest.raises(UsageError) as error:
        check_shadowing("json")
    assert "json" in error.value.message
    assert "another folder" in error.value.hint
