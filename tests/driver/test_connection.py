"""A connection that outlives its server: a real process over stdio, really killed."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import anyio
import pytest
from mcp import Client, StdioServerParameters, stdio_client

from kevolve_mcp.driver import OpenClient, connect
from kevolve_mcp.driver import connection as module
from kevolve_mcp.errors import Conflict, Unavailable

SCRIPT = Path(__file__).with_name("mortal_server.py")


@pytest.fixture
def mortal(tmp_path: Path) -> Iterator[Callable[..., OpenClient]]:
    with (tmp_path / "log").open("a") as log:

        def make(*arguments: str) -> OpenClient:
            server = StdioServerParameters(
                command=sys.executable, args=[str(SCRIPT), *arguments], env=dict(os.environ)
            )
            return lambda: Client(stdio_client(server, errlog=log))

        yield make


def test_a_call_under_which_the_server_dies_is_made_again_on_the_next_one(
    tmp_path: Path, mortal: Callable[..., OpenClient]
) -> None:
    remarks: list[str] = []

    async def run() -> None:
        async with connect(mortal(), remarks.append) as server:
            first = (await server.call("who", {})).data["pid"]
            second = (await server.call("die", {"marker": str(tmp_path / "died")})).data["pid"]
            assert second != first
            assert (await server.call("who", {})).data["pid"] == second

    anyio.run(run)
    assert len(remarks) == 1
    assert "starting it again" in remarks[0]


def test_several_callers_share_one_restart(
    tmp_path: Path, mortal: Callable[..., OpenClient]
) -> None:
    remarks: list[str] = []
    pids: set[int] = set()

    async def run() -> None:
        async with connect(mortal(), remarks.append) as server:

            async def one(tool: str, arguments: dict[str, str]) -> None:
                pids.add((await server.call(tool, arguments)).data["pid"])

            async with anyio.create_task_group() as group:
                for _ in range(4):
                    group.start_soon(one, "die", {"marker": str(tmp_path / "died")})

    anyio.run(run)
    assert len(remarks) == 1
    assert len(pids) == 1


def test_a_server_that_never_starts_is_given_up_in_words(
    mortal: Callable[..., OpenClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PAUSE_S", 0.001)
    monkeypatch.setattr(module, "RESTARTS", 2)

    async def run() -> None:
        async with connect(mortal("refuse to start"), why="The log has it.") as server:
            await server.call("who", {})

    with pytest.raises(Unavailable, match=r"ended 2 times in a row .* The log has it\."):
        anyio.run(run)


def test_an_error_of_the_server_keeps_its_class_message_and_hint(
    mortal: Callable[..., OpenClient],
) -> None:
    async def run() -> None:
        async with connect(mortal()) as server:
            with pytest.raises(Conflict) as caught:
                await server.call("refuse", {})
            assert caught.value.message == "the session is finished"
            assert caught.value.hint == "Open another."

    anyio.run(run)
