"""The event that wakes a worker never keeps the judge waiting for long."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any

import pytest

from harness.judge.exchange import wake

FULL = (1 << 64) - 2


@pytest.fixture
def ends(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setattr(wake, "LOOK_S", 0.01)
    return []


def of(ends: list[str], *, trusted: bool = False) -> wake.Wake:
    worker: Any = SimpleNamespace(
        kill=lambda: ends.append("killed"), wait_for_end=lambda: ends.append("gone")
    )
    return wake.Wake(worker, trusted=trusted)


def test_a_full_event_ends_its_worker_and_not_the_judge(ends: list[str]) -> None:
    event = of(ends)
    os.eventfd_write(event.fd, FULL)
    event.signal()
    assert event.was_full
    assert ends == ["killed", "gone"]
    event.close()


@pytest.mark.parametrize("trusted", [False, True])
def test_a_worker_that_is_slow_to_read_is_left_alone(ends: list[str], trusted: bool) -> None:
    event = of(ends, trusted=trusted)
    for _ in range(3):
        event.signal()
    event._over.wait(0.05)
    event.close()
    assert not ends
    assert not event.was_full
