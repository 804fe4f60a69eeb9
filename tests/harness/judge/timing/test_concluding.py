"""What a block's baseline takes is held against what it took when the task was opened."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from harness.judge.figures.block import Block
from harness.judge.figures.case_times import CaseTimes
from harness.judge.timing.concluding import drift
from harness.targets.state import DeviceState
from harness.types import Case

CASE = Case("default", baselines_us={"eager": 10.0, "compile": 4.0})


def times(baseline_us: float, *, by_judge: bool = True) -> CaseTimes:
    pairs = {"compile": [(baseline_us, 3.0)] * 6}
    nothing = [(11_000, 700)] if by_judge else []
    return CaseTimes([Block(pairs, DeviceState(0), DeviceState(0), null_ns=nothing)])


def context(*, on_host: bool = False) -> Any:
    return SimpleNamespace(task=SimpleNamespace(family=SimpleNamespace(SYNCHRONOUS=on_host)))


@pytest.mark.parametrize(
    ("baseline_us", "factor"), [(4.0, 1.0), (4.3, 1.0), (3.7, 1.0), (7.4, 1.85), (2.0, 0.5)]
)
def test_a_baseline_that_takes_something_else_than_before_is_told(
    baseline_us: float, factor: float
) -> None:
    assert drift(context(), CASE, times(baseline_us)) == pytest.approx(factor)


def test_it_is_not_asked_where_another_clock_gives_the_figure() -> None:
    assert drift(context(on_host=True), CASE, times(7.4)) == 1.0
    assert drift(context(), CASE, times(7.4, by_judge=False)) == 1.0


def test_a_case_that_nobody_screened_tells_nothing() -> None:
    assert drift(context(), Case("default"), times(7.4)) == 1.0
