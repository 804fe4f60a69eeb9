"""Paths over HTTP: nothing outside the root is read, whichever argument asks for it, and no refusal
tells what exists."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, MCPError
from mcp.types import CallToolResult

from kevolve_mcp.errors import UsageError
from kevolve_mcp.server.file_access import default_root

from .conftest import TASK, data, kernel, open_session, refused
from .serving import Serving

pytestmark = pytest.mark.anyio

SECRET = "the-content-of-a-secret"
START = kernel(1.2)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """root: what the server may read, with traps; outside: what it may not, with things that look
    like tasks and kernels."""
    folder = tmp_path_factory.mktemp("paths")
    outside, root = folder / "outside", folder / "root"
    for name in (
        outside,
        root / "task",
        root / "linked",
        root / "started",
        root / "held",
        root / "deep" / "inside",
    ):
        name.mkdir(parents=True)
    for name in ("task.py", "start.py", "secret.py"):
        (outside / name).write_text(f"# {SECRET}\n{TASK}\n{START}")
    (folder / "root-twin").mkdir()
    (folder / "root-twin" / "task.py").write_text(f"# {SECRET}\n{TASK}")
    (root / "task" / "task.py").write_text(TASK)
    (root / "task" / "start.py").write_text(START)
    (root / "kernel.py").write_text(START)
    (root / "inner.py").symlink_to(root / "kernel.py")
    (root / "link.py").symlink_to(outside / "secret.py")
    (root / "relative.py").symlink_to("../outside/secret.py")
    (root / "chain.py").symlink_to("link.py")
    (root / "dangling.py").symlink_to(outside / "nothing.py")
    (root / "loop.py").symlink_to("loop.py")
    (root / "way").symlink_to(outside)
    (root / "top").symlink_to("/")
    (root / "linked" / "task.py").symlink_to(outside / "task.py")
    (root / "linked" / "start.py").symlink_to(outside / "start.py")
    (root / "started" / "task.py").write_text(TASK)
    (root / "started" / "start.py").symlink_to(outside / "start.py")
    (root / "held" / "scale.py").write_text(TASK)
    (root / "held" / "scale.heldout.py").symlink_to(outside / "secret.py")
    (root / "notes.txt").write_text(SECRET)
    (root / ".env").write_text(SECRET)
    (root / "folder.py").mkdir()
    os.mkfifo(root / "pipe.py")
    return folder


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Serving]:
    """Its home lies below the root: the worst case."""
    with Serving(folder / "root" / "home", folder / "root") as serving:
        yield serving


@pytest.fixture(params=["auto", "legacy"])
async def client(request: pytest.FixtureRequest, server: Serving) -> AsyncIterator[Client]:
    async with server.client(request.param) as connected:
        yield connected


def attacks(folder: Path) -> list[str]:
    root = folder / "root"
    out = folder / "outside"
    home = root / "home"
    return [
        "/etc/passwd",
        "/etc/hostname",
        "/proc/self/environ",
        "/proc/self/cwd/pyproject.toml",
        "/dev/zero",
        "/",
        str(out / "secret.py"),
        str(out),
        str(folder / "root-twin" / "task.py"),
        str(folder / "root-twin"),
        f"{root}/../outside/secret.py",
        f"{root}/deep/../../outside/secret.py",
        f"{root}/..",
        f"{root}/%2e%2e/outside/secret.py",
        f"{root}/%2e%2e%2foutside%2fsecret.py",
        f"{root}/..%00/outside/secret.py",
        f"{root}/task/task.py\0.txt",
        f"{root}/\0",
        "\0",
        f"file://{root}/task/task.py",
        "task/task.py",
        "../outside/secret.py",
        "~/.ssh/id_rsa",
        "~root",
        f"//{out}/secret.py",
        f"{root}/link.py",
        f"{root}/relative.py",
        f"{root}/chain.py",
        f"{root}/dangling.py",
        f"{root}/loop.py",
        f"{root}/way/secret.py",
        f"{root}/way",
        f"{root}/top/etc/passwd",
        f"{root}/top{out}/secret.py",
        f"{root}/linked",
        f"{root}/linked/task.py",
        f"{root}/notes.txt",
        f"{root}/.env",
        f"{root}/pipe.py",
        f"{root}/folder.py",
        f"{root}/nothing.py",
        f"{root}/nothing/task.py",
        f"{home}/http-token",
        f"{home}/kevolve.db",
        f"{home}/exports",
        f"{root}/{'x' * 5000}.py",
        f"{root}/{'x/' * 3000}y.py",
        f"{root}/\u202e.py",
        "\\\\server\\share\\x.py",
        " ",
    ]


def text(result: CallToolResult) -> str:
    return result.model_dump_json()


async def path_arguments(client: Client) -> list[tuple[str, str]]:
    """Every argument of every tool that looks like a path."""
    tools = (await client.list_tools()).tools
    return [
        (t.name, name)
        for t in tools
        for name in t.input_schema["properties"]
        if name == "path" or name.endswith("_path")
    ]


async def test_all_path_arguments_are_known(client: Client) -> None:
    """A new one is attacked below by itself; this list is here to be read."""
    found = await path_arguments(client)
    assert sorted({name for _, name in found}) == ["path", "start_path", "task_path"]
    assert {tool for tool, _ in found} == {
        "session_open",
        "kernel_compile",
        "kernel_check",
        "kernel_profile",
        "kernel_submit",
    }


async def test_no_path_argument_reads_outside(client: Client, folder: Path) -> None:
    session = await open_session(client, new=True)
    for tool, argument in await path_arguments(client):
        rest: dict[str, Any] = {"wait_s": 5}
        if tool == "kernel_submit":
            rest["session_id"] = session
        elif argument != "task_path":
            rest["task_source"] = TASK
        elif tool != "session_open":
            rest["source"] = START
        for path in attacks(folder):
            result = await client.call_tool(tool, {**rest, argument: path})
            assert result.is_error, (tool, argument, path, text(result))
            assert SECRET not in text(result)
            assert "root:" not in text(result)
            error = refused(result)
            assert error["code"] == "usage", (tool, argument, path, error)
            assert error["hint"], (tool, argument, path)
    tree = await client.call_tool("tree_view", {"session_id": session})
    assert not data(tree)["data"].get("nodes")


async def test_what_a_task_brings_along_may_not_lead_outside_either(
    client: Client, folder: Path
) -> None:
    for name in ("started", "started/task.py", "held/scale.py"):
        error = refused(
            await client.call_tool(
                "session_open", {"task_path": str(folder / "root" / name), "new": True}
            )
        )
        assert "beside the task" in error["message"]
        assert "leads outside" in error["message"]


async def test_a_refusal_is_the_same_whether_the_file_exists_or_not(
    client: Client, folder: Path
) -> None:
    outside = folder / "outside"
    said = [
        refused(await client.call_tool("session_open", {"task_path": str(path)}))
        for path in (
            outside / "task.py",
            outside / "nothing.py",
            outside,
            outside / "nowhere" / "x.py",
            Path("/etc/passwd"),
        )
    ]
    assert all(error == said[0] for error in said)
    assert str(folder / "root") in said[0]["hint"]
    assert "task_source" in said[0]["hint"]


async def test_files_below_the_root_are_read(client: Client, folder: Path) -> None:
    root = folder / "root"
    for path in (root / "task", root / "task" / "task.py"):
        opened = data(await client.call_tool("session_open", {"task_path": str(path)}))
        assert opened["state"] == "done"
        assert opened["session_id"].startswith("task-")
    session = opened["session_id"]
    for name in ("kernel.py", "inner.py"):
        told = data(
            await client.call_tool(
                "kernel_submit", {"session_id": session, "path": str(root / name)}
            )
        )
        assert told["status"] == "correct"
    start = {"task_source": TASK, "start_path": str(root / "task"), "new": True}
    assert data(await client.call_tool("session_open", start))["state"] == "done"
    error = refused(
        await client.call_tool(
            "kernel_submit", {"session_id": session, "path": str(root / "kernl.py")}
        )
    )
    assert "near: kernel.py" in error["message"]


async def test_the_interpreter_is_not_the_callers_choice(client: Client, folder: Path) -> None:
    for python in (
        "/usr/bin/python3",
        "python3",
        "/bin/sh",
        str(folder / "root" / "kernel.py"),
        "\0",
        "-c",
    ):
        error = refused(
            await client.call_tool(
                "session_open", {"task_source": TASK, "python": python, "new": True}
            )
        )
        assert "--allow-python" in error["hint"]


async def test_ids_are_not_paths(client: Client, folder: Path) -> None:
    session = await open_session(client)
    odd = [
        "../../etc/passwd",
        "..",
        "/etc/passwd",
        "%2e%2e%2f",
        "\0",
        f"{session}/../{session}",
        f"{session}\0",
        "' OR 1=1 --",
        "*",
    ]
    for value in odd:
        calls: list[tuple[str, dict[str, Any]]] = [
            ("knowledge_read", {"page_id": value}),
            ("knowledge_read", {"page_id": f"guidance/../{value}"}),
            ("tree_view", {"session_id": value}),
            ("tree_view", {"session_id": session, "node_id": value}),
            ("tree_view", {"evaluation_id": value}),
            ("session_next", {"session_id": value}),
            ("session_next", {"session_id": session, "ask_id": value}),
            ("session_finish", {"session_id": value}),
            ("session_finish", {"session_id": session, "node_id": value}),
            ("kernel_submit", {"session_id": value, "source": START}),
            ("kernel_submit", {"session_id": session, "source": START, "ask_id": value}),
            ("kernel_submit", {"session_id": session, "source": START, "parents": [value]}),
            (
                "skill_record",
                {"session_id": session, "node_id": value, "title": "t", "mechanism": "m"},
            ),
            ("job_wait", {"job_id": value}),
            ("job_wait", {"session_id": value}),
            ("job_cancel", {"job_id": value}),
        ]
        for tool, arguments in calls:
            error = refused(await client.call_tool(tool, arguments))
            assert error["code"] in ("not_found", "usage", "page_not_found", "conflict"), (
                tool,
                arguments,
                error,
            )


async def test_resource_uris_are_not_paths(client: Client) -> None:
    session = await open_session(client)
    for page in (
        "../../../etc/passwd",
        "..%2f..%2f..%2fetc%2fpasswd",
        "%2e%2e/%2e%2e/etc/passwd",
        "/etc/passwd",
        "guidance/%00",
        "guidance/../../errors",
    ):
        with pytest.raises(MCPError):
            await client.read_resource(f"kevolve://knowledge/{page}")
    for uri in (
        f"kevolve://sessions/{session}/nodes/../source",
        f"kevolve://sessions/{session}/nodes/..%2f..%2fetc%2fpasswd/source",
        "kevolve://sessions/..%2f..%2fetc/report",
        "kevolve://sessions/%2e%2e/report",
        "kevolve://sessions/%00/report",
        Path("/etc/passwd").as_uri(),
        "kevolve:///etc/passwd",
    ):
        with pytest.raises(MCPError):
            await client.read_resource(uri)


async def test_the_instructions_say_where_paths_may_lead(client: Client, folder: Path) -> None:
    assert f"below {folder / 'root'}" in (client.instructions or "")


async def test_what_the_operator_allows_and_forbids(folder: Path, tmp_path: Path) -> None:
    with Serving(
        tmp_path / "home", folder / "root", allow_python=True, tasks_from_root=True
    ) as serving:
        async with serving.client() as client:
            for tool, rest in (("session_open", {}), ("kernel_check", {"source": START})):
                error = refused(await client.call_tool(tool, {"task_source": TASK, **rest}))
                assert "task_path" in error["hint"]
            arguments = {"task_path": str(folder / "root" / "task"), "python": "/usr/bin/python3"}
            session = data(await client.call_tool("session_open", arguments))["session_id"]
            assert (
                data(
                    await client.call_tool(
                        "kernel_submit", {"session_id": session, "source": START}
                    )
                )["status"]
                == "correct"
            )


def test_too_wide_a_root_is_not_taken_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "users" / "me"
    (home / "work").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    for wide in (Path("/"), tmp_path, home.parent, home):
        monkeypatch.chdir(wide)
        with pytest.raises(UsageError, match="--root"):
            default_root()
    monkeypatch.chdir(home / "work")
    assert default_root() == home / "work"
