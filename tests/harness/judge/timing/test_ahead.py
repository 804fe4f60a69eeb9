"""Processor time before the measured rounds, from clocks that are set by hand."""

from __future__ import annotations

import pytest

from harness.judge.timing import ahead
from harness.judge.timing.ahead import NOISE_NS, Ahead

CALLS = 8  # in each of two rounds


class Clock:
    """The clock of a process."""

    def __init__(self) -> None:
        self.ms = 0.0

    def used_ns(self) -> int:
        return round(1e6 * self.ms)


class Sides:
    """A candidate and a baseline, both of 1 ms a call unless said otherwise."""

    def __init__(self) -> None:
        self.own, self.baseline = Clock(), Clock()
        self.ahead = Ahead(self.own, self.baseline)  # type: ignore[arg-type]

    def half(
        self,
        own_ms: float,
        baseline_ms: float,
        *,
        calls: tuple[int, int] = (10, 10),
        us: tuple[float, float] = (1000.0, 1000.0),
    ) -> None:
        """Run a half before whose rounds the processes took so many ms for so many calls."""
        self.ahead.begin()
        self.own.ms += own_ms
        with self.ahead.of_baseline():
            self.baseline.ms += baseline_ms
        self.baseline.ms += 500  # of other work
        self.ahead.settled(*calls)
        self.ahead.spread([us[0]] * 2, [us[1]] * 2, CALLS)


@pytest.fixture
def sides(monkeypatch: pytest.MonkeyPatch) -> Sides:
    monkeypatch.setattr(ahead, "ProcessBill", lambda worker: worker)
    return Sides()


def test_time_beyond_the_calls_is_spread_over_those_of_the_half(sides: Sides) -> None:
    sides.half(90, 10)
    assert sides.ahead.us == pytest.approx((80e3 - NOISE_NS / 1e3) / (2 * CALLS))


def test_what_a_baseline_takes_as_well_is_not_open(sides: Sides) -> None:
    sides.half(90, 90)
    assert sides.ahead.us == 0.0


def test_a_heap_that_settles_longer_is_not_work_ahead(sides: Sides) -> None:
    sides.half(80, 20, calls=(80, 20))
    assert sides.ahead.us == 0.0


def test_warm_calls_of_a_slow_baseline_are_not_work_ahead(sides: Sides) -> None:
    sides.half(70, 210, calls=(70, 70), us=(1500.0, 4500.0))
    assert sides.ahead.us == 0.0


def test_the_last_half_counts(sides: Sides) -> None:
    sides.half(90, 10)
    sides.half(10, 10)
    assert sides.ahead.us == 0.0
    sides.half(50, 10)
    assert sides.ahead.us > 0.0


def test_calls_that_are_short_in_one_half_only_are_open(sides: Sides) -> None:
    sides.half(10, 10, us=(200.0, 1000.0))
    sides.half(10, 10)
    assert sides.ahead.us == pytest.approx(1000 - 1.15 * 200)


def test_a_machine_that_slows_down_leaves_nothing_open(sides: Sides) -> None:
    sides.half(10, 10)
    sides.half(20, 20, us=(2000.0, 2000.0))
    assert sides.ahead.us == 0.0
