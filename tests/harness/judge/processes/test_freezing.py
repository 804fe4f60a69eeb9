"""Who is told to stop has stopped before anything else is measured."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from harness.judge.errors import WorkerTimeout
from harness.judge.processes import freezing


@pytest.fixture
def root() -> Iterator[int]:
    """A process with one below it that never sleeps."""
    script = f"{sys.executable} -c 'while True: pass' & wait"
    with subprocess.Popen(["sh", "-c", script]) as process:
        while not freezing.children(process.pid):
            pass
        yield process.pid
        for pid in freezing.children(process.pid):
            os.kill(pid, signal.SIGKILL)


def stops_at(monkeypatch: pytest.MonkeyPatch, times: int) -> None:
    """Let a process heed the signal to stop when it is sent so often only."""
    sent, send = list[int](), freezing._signal

    def later(pid: int, number: int) -> None:
        sent.append(number)
        if number != signal.SIGSTOP or sent.count(number) >= times:
            send(pid, number)

    monkeypatch.setattr(freezing, "_signal", later)


def state(root: int) -> str:
    """That of the process below a root."""
    return freezing.fields_of(freezing.children(root)[0])[0]


def test_one_that_stops_late_is_waited_for(root: int, monkeypatch: pytest.MonkeyPatch) -> None:
    stops_at(monkeypatch, times=150)
    stopped = set[int]()
    freezing.stop(root, stopped)
    assert state(root) == "T"
    freezing.go_on(stopped)


def test_one_that_does_not_stop_is_ended_and_blamed(
    root: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    stops_at(monkeypatch, times=1 << 30)
    monkeypatch.setattr(freezing, "STOP_S", 0.1)
    blamed = list[int]()

    @contextlib.contextmanager
    def blame(root: int) -> Iterator[None]:
        try:
            yield
        except WorkerTimeout:
            blamed.append(root)
            raise

    with (
        pytest.raises(WorkerTimeout, match="told to stop"),
        freezing.turns(root, blame=blame),
    ):
        pass
    assert blamed == [root]
    while freezing.children(root):  # until its parent has seen its end
        time.sleep(0.01)


def test_who_is_held_runs_in_its_turns_alone(root: int) -> None:
    held = freezing.HeldProcesses()
    held.stop(root)
    with freezing.turns(root, held=held) as turn:
        assert state(root) == "T"
        with turn(root):
            assert state(root) == "R"
    assert state(root) == "T"
    held.let_go(root)
    assert state(root) == "R"
