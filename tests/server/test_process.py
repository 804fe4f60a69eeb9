"""The server as a process: stdio, what it imports, what it prints, and other people's clients."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest
from mcp import Client, StdioServerParameters

from .conftest import data, kernel, open_session, text

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parents[2]
# what the first calls need, and listing the tools does not
UNLISTED = (
    "harness.languages",
    "kevolve_mcp.cli.evaluate",
    "kevolve_mcp.cli.optimize",
    "kevolve_mcp.sessions.home",
    "kevolve_mcp.sessions.inputs",
    "kevolve_mcp.sessions.service",
    "kevolve_mcp.store",
    "kevolve_mcp.synthesis.context",
    "kevolve_mcp.export",
    "knowledge",
    "filelock",
    "fsspec",
    "pydantic_settings",
    "sqlalchemy",
    "yaml",
)
HEAVY = (
    "torch",
    "triton",
    "chromadb",
    "sentence_transformers",
    "pydantic_ai",
    "optuna",
    "libcst",
    "alembic",
    "sqlalchemy",
)


def real(home: Path, cwd: Path = ROOT) -> StdioServerParameters:
    environment = {**os.environ, "KEVOLVE_HOME": str(home), "PYTHONPATH": str(ROOT)}
    return StdioServerParameters(
        command=sys.executable, args=["-m", "kevolve_mcp.cli.serve"], env=environment, cwd=cwd
    )


def fake(home: Path) -> StdioServerParameters:
    return StdioServerParameters(
        command=sys.executable, args=["-m", "tests.server.fake_server", str(home)], cwd=ROOT
    )


async def test_the_real_server_answers_over_stdio(tmp_path: Path) -> None:
    async with Client(real(tmp_path)) as client:
        assert len((await client.list_tools()).tools) == 14
        found = await client.call_tool("knowledge_search", {"query": "cache blocking"})
        assert data(found)["hits"]
        assert text(await client.call_tool("tree_view", {})).startswith("0 sessions")


async def test_a_session_survives_its_server(tmp_path: Path) -> None:
    async with Client(fake(tmp_path)) as client:
        session = await open_session(client)
        await client.call_tool("kernel_submit", {"session_id": session, "source": kernel(1.2)})
        arguments = {"session_id": session, "source": kernel(1.7, seconds=1.0), "wait_s": 0}
        job = data(await client.call_tool("kernel_submit", arguments))["job_id"]
    async with Client(fake(tmp_path), mode="legacy") as client:
        done = data(await client.call_tool("job_wait", {"job_id": job}))
        assert done["result"]["node"]["id"] == "n2"
        assert await open_session(client) == session


async def test_nothing_heavy_is_imported_to_answer(tmp_path: Path) -> None:
    script = f"""
import sys, anyio
from mcp import Client
import kevolve_mcp.cli.serve
from kevolve_mcp.server import build_server
from kevolve_mcp.settings import Settings

async def main():
    async with Client(build_server(Settings(home={str(tmp_path / "home")!r}))) as client:
        await client.list_tools()
        await client.list_prompts()
        print([name for name in {UNLISTED!r} if name in sys.modules])
        print([name for name in {HEAVY!r} if name in sys.modules])
        await client.call_tool("knowledge_read", {{"page_id": "index"}})
        print([name for name in {HEAVY!r} if name in sys.modules])

anyio.run(main)
"""
    answer = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT, check=True
    )
    assert answer.stdout.splitlines() == ["[]", "[]", "[]"]
    assert not (tmp_path / "home").exists()


def test_a_folder_named_harness_is_not_mistaken_for_ours(tmp_path: Path) -> None:
    (tmp_path / "harness").mkdir()
    (tmp_path / "harness" / "__init__.py").write_text("")
    path = os.pathsep.join([str(tmp_path), str(ROOT)])
    answer = subprocess.run(
        [sys.executable, "-m", "kevolve_mcp.cli.serve"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        cwd=ROOT.parent,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert answer.returncode != 0
    assert answer.stdout == ""
    assert str(tmp_path / "harness") in answer.stderr
    assert "Traceback" not in answer.stderr


def test_the_server_ends_with_its_input(tmp_path: Path) -> None:
    answer = subprocess.run(
        [sys.executable, "-m", "kevolve_mcp.cli.serve", "--home", str(tmp_path)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=60,
    )
    assert (answer.returncode, answer.stdout) == (0, "")


async def test_a_killed_server_leaves_a_usable_home(tmp_path: Path) -> None:
    process = await anyio.open_process(
        [sys.executable, "-m", "tests.server.fake_server", str(tmp_path)], cwd=ROOT
    )
    async with process:
        process.send_signal(signal.SIGKILL)
        await process.wait()
    async with Client(fake(tmp_path)) as client:
        assert await open_session(client)


INSPECTOR = "@modelcontextprotocol/inspector@0.17.2"
INSTALL_S = 90  # npm asks a registry, which may be far away or not there


@pytest.fixture(scope="module", autouse=True)
def installing(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[Path, subprocess.Popen[str]] | None]:
    """The Inspector's program on its way into a folder of its own, while other tests run; None
    without Node.js."""
    npm = shutil.which("npm")
    if npm is None or shutil.which("node") is None:
        yield None
        return
    folder = tmp_path_factory.mktemp("inspector")
    command = [
        npm,
        "install",
        "--no-audit",
        "--no-fund",
        "--ignore-scripts",
        "--fetch-retries=0",
        "--prefix",
        str(folder),
        INSPECTOR,
    ]
    nobody = subprocess.DEVNULL
    with subprocess.Popen(
        command, stdin=nobody, stdout=nobody, stderr=subprocess.PIPE, text=True, cwd=folder
    ) as npm_process:
        yield folder, npm_process
        npm_process.kill()


@pytest.fixture
def inspector(installing: tuple[Path, subprocess.Popen[str]] | None) -> Path:
    if installing is None:
        pytest.skip("Node.js with npm is not installed")
    folder, npm = installing
    try:
        _, said = npm.communicate(timeout=INSTALL_S)
    except subprocess.TimeoutExpired:
        pytest.skip(f"npm did not install {INSPECTOR} within {INSTALL_S} s")
    if npm.returncode != 0:
        pytest.skip(f"npm cannot install {INSPECTOR}: {said.strip().splitlines()[:1]}")
    return folder / "node_modules" / ".bin" / "mcp-inspector"


@pytest.mark.timeout(INSTALL_S + 120)
def test_the_inspector_lists_the_tools(inspector: Path, tmp_path: Path) -> None:
    server = [sys.executable, "-m", "tests.server.fake_server", str(tmp_path)]
    command = [str(inspector), "--cli", *server, "--method", "tools/list"]
    answer = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=90)
    assert answer.returncode == 0, answer.stderr
    assert '"kernel_submit"' in answer.stdout
