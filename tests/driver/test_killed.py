"""kill -9 of the server in the middle of a run: nothing that was finished is lost, and the run goes
on by itself."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import anyio
import pytest

from kevolve_mcp.driver import events

from .conftest import START, Runner, Steady, write_task


def kill_after(runner: Runner, pids: Path, what: type, count: int, pause: float) -> list[int]:
    """Run to the end; once `count` events of a kind are there, wait a moment and kill the server.
    The pids of all servers."""

    async def run() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(drive)
            while len(runner.of(what)) < count:
                await anyio.sleep(0.01)
            await anyio.sleep(pause)
            os.kill(int(pids.read_text().split()[-1]), signal.SIGKILL)

    async def drive() -> None:
        await runner.drive(Steady("seconds=0.2"), process=True)

    anyio.run(run)
    return [int(p) for p in pids.read_text().split()]


@pytest.mark.parametrize(
    ("what", "count", "pause"),
    [(events.NodeEvaluated, 2, 0.1), (events.Terminated, 1, 0.1), (events.Working, 1, 0.0)],
    ids=["while it evaluates", "while it finishes", "while it opens"],
)
def test_a_killed_server_is_started_again_and_the_run_goes_on(
    runner: Runner,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    what: type,
    count: int,
    pause: float,
) -> None:
    pids = tmp_path / "pids"
    monkeypatch.setenv("FAKE_SERVER_PIDS", str(pids))
    write_task(tmp_path / "scale", START + "# fake: seconds=0.2\n", ["seconds=0.2"])
    servers = kill_after(runner, pids, what, count, pause)
    assert len(set(servers)) == 2
    assert any("starting it again" in e.text for e in runner.events if isinstance(e, events.Remark))
    nodes = [e.told.node.id for e in runner.events if isinstance(e, events.NodeEvaluated)]
    assert len(nodes) == len(set(nodes)) == 6
    (finished,) = [e for e in runner.events if isinstance(e, events.SearchFinished)]
    assert finished.ending.package
    assert finished.ending.session.nodes == 6
    assert finished.ending.session.open_asks == 0
