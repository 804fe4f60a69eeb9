"""Killed at once, waited for later: nothing of such a worker runs, and few of them are held."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from harness.judge.device.machine import Machine
from harness.judge.processes import reaper
from harness.judge.processes.reaper import Reaper
from harness.judge.processes.worker import Worker


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Callable[[], Worker]]:
    machine = Machine(tmp_path)
    server = machine.servers.bare("process")
    yield lambda: server.worker("candidate", machine.rules("process"), machine.scratch)
    machine.close()


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_it_is_killed_at_once_and_cleared_away_when_somebody_waits(
    started: Callable[[], Worker],
) -> None:
    started().close()
    before, workers = descriptors(), Reaper()
    worker = started()
    workers.add(worker)
    until = time.monotonic() + 5
    while worker.pid and time.monotonic() < until:
        time.sleep(0.01)
    assert not worker.pid
    workers.wait()
    assert descriptors() == before
    assert not os.path.exists(worker.folder)


def test_no_more_than_a_few_are_held(started: Callable[[], Worker]) -> None:
    started().close()
    before, workers = descriptors(), Reaper()
    most = []
    for _ in range(3 * reaper.MOST):
        workers.add(started())
        most.append(descriptors() - before)
    assert max(most) == most[reaper.MOST - 1]
    workers.wait()
    assert descriptors() == before
