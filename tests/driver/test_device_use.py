"""What a search makes of its device is told in shares of its wall time."""

from __future__ import annotations

from harness.types import Spent
from kevolve_mcp import api
from kevolve_mcp.driver.device_use import NOTHING_USED, DeviceUse, UseMeter


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def told(verify_s: float, *, cached: bool = False) -> api.Evaluated:
    evaluation = api.Evaluation("e1", stage_seconds={"build": 9.0, "verify": verify_s})
    return api.Evaluated("submit", evaluation, cached=cached)


def test_work_that_overlaps_counts_once_and_authors_leave_nothing_idle() -> None:
    clock = Clock()
    meter = UseMeter(Spent(device_seconds=50.0), clock)
    clock.now += 20  # an author writes
    with meter.judging():
        clock.now += 30
        with meter.judging():
            clock.now += 10
        clock.now += 20
    for verdict in (told(6.0), told(4.0), told(70.0, cached=True)):
        meter.note(verdict)
    clock.now += 20
    assert meter.use(Spent(device_seconds=75.0)) == DeviceUse(100.0, 0.25, 0.1, 0.25)


def test_shares_stay_shares() -> None:
    clock = Clock()
    meter = UseMeter(Spent(), clock)
    assert meter.use() == NOTHING_USED
    with meter.judging():
        clock.now += 10
        meter.note(told(40.0))
        assert meter.use(Spent(device_seconds=90.0)) == DeviceUse(10.0, 1.0, 1.0, 0.0)
