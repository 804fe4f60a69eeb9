"""A worker that is started before it is needed: used once, for the purpose it was started for, and
only while it is well."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from harness.judge.device.machine import Machine
from harness.judge.processes.spare_worker import SpareWorker
from harness.judge.processes.worker import Worker


@pytest.fixture(scope="module")
def machine(judge_cache: Path) -> Iterator[Machine]:
    found = Machine(judge_cache)
    yield found
    found.close()


@pytest.fixture
def spare() -> Iterator[SpareWorker]:
    found = SpareWorker()
    yield found
    found.drop()


def started(spare: SpareWorker, machine: Machine) -> int:
    """The pid of a worker for candidates that was started before it is needed."""
    rules = machine.rules(machine.level)
    spare.start(machine.fork_server, "candidate", rules, machine.scratch, "cpu")
    until = time.monotonic() + 20
    while spare._worker is None and time.monotonic() < until:
        time.sleep(0.01)
    assert spare._worker is not None
    return spare._worker.pid


def take(spare: SpareWorker, machine: Machine) -> Worker | None:
    return spare.take(machine.fork_server, "candidate", machine.rules(machine.level))


def test_it_is_the_one_that_was_started_and_serves_once(
    machine: Machine, spare: SpareWorker
) -> None:
    pid = started(spare, machine)
    assert started(spare, machine) == pid  # one is enough
    worker = take(spare, machine)
    assert worker is not None
    assert worker.pid == pid
    worker.ask("threads", seconds=20, count=1, cpus=[])
    worker.close()
    assert take(spare, machine) is None


def test_one_for_other_rules_is_not_taken(machine: Machine, spare: SpareWorker) -> None:
    started(spare, machine)
    wider = replace(machine.rules(machine.level), memory_bytes=1 << 30)
    assert spare.take(machine.fork_server, "candidate", wider) is None


def test_one_that_has_died_is_replaced(machine: Machine, spare: SpareWorker) -> None:
    pid = started(spare, machine)
    pidfd = os.pidfd_open(pid)
    os.kill(pid, signal.SIGKILL)
    assert select.select([pidfd], [], [], 20)[0]
    os.close(pidfd)
    assert take(spare, machine) is None
    started(spare, machine)
    worker = take(spare, machine)
    assert worker is not None
    worker.close()


def test_a_dropped_one_is_gone(machine: Machine, spare: SpareWorker) -> None:
    pid = started(spare, machine)
    spare.drop()
    # ended, perhaps not waited for yet
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        assert not Path(f"/proc/{pid}/cmdline").read_bytes()
