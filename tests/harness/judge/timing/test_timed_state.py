"""When the state that calls update is looked at."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from harness.judge.timing.timed_state import CUT_TURNS, LOOKS_ALONE, MOST_LOOKED_AT, TimedState


def state(*, one_by_one: bool = True, warm: int = 2, calls: int = 1, size: int = 4) -> TimedState:
    pool: Any = SimpleNamespace(
        updated=["kept"],
        one_by_one=one_by_one,
        shared=False,
        halves=[],
        warm_calls=warm,
        calls=calls,
        name="only",
    )
    value = torch.empty(size, dtype=torch.uint8, device="meta")
    drawer: Any = SimpleNamespace(initial_state=lambda pool: {"kept": value})
    return TimedState(pool, SimpleNamespace(), drawer)  # type: ignore[arg-type]


def test_turns_end_early_in_rounds_and_after_calls_that_nobody_knows() -> None:
    draws = [state().draw_cuts(random.Random(seed), 8) for seed in range(64)]
    assert {len(cuts) for cuts in draws} == {CUT_TURNS}
    assert {number for cuts in draws for number in cuts} == set(range(1, 8))
    assert {calls for cuts in draws for calls in cuts.values()} == {1, 2}


@pytest.mark.parametrize(
    ("made", "rounds", "cuts"),
    [
        ({}, 1, 0),
        ({}, 2, 0),  # two stay whole
        ({}, 3, 1),
        ({"size": MOST_LOOKED_AT + 1}, 8, 0),
        ({"warm": 0}, 8, 0),  # a turn of one call has no earlier end
        ({"one_by_one": False}, 8, 0),
    ],
)
def test_no_turn_ends_early_where_there_is_none(
    made: dict[str, Any], rounds: int, cuts: int
) -> None:
    assert len(state(**made).draw_cuts(random.Random(1), rounds)) == cuts


@pytest.mark.parametrize(("calls", "looks"), [(0, 0), (1, 0), (2, 1), (8, LOOKS_ALONE)])
def test_calls_alone_are_looked_at_but_the_last(calls: int, looks: int) -> None:
    drawn = [state().looks_alone(random.Random(seed), calls) for seed in range(64)]
    assert {len(each) for each in drawn} == {looks}
    assert {number for each in drawn for number in each} == set(range(max(0, calls - 1)))


def test_large_state_is_not_looked_at_after_calls_alone() -> None:
    assert not state(size=MOST_LOOKED_AT + 1).looks_alone(random.Random(1), 8)
