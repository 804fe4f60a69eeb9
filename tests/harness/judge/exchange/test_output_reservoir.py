"""Outputs that are held beyond their turn."""

from __future__ import annotations

from collections import Counter

import pytest

from harness.judge.exchange.output_reservoir import (
    HELD_BYTES,
    MOST_HELD,
    OutputReservoir,
    Selection,
)
from harness.workers import gate

TURNS, TIMES = 40, 400


def held_after(turns: int, each_bytes: int, calls: int = 2) -> list[tuple[int, int]]:
    """(turn, call) of what is held in the end; the worker's list is the judge's."""
    held, theirs, seen = OutputReservoir[tuple[int, int]](each_bytes), list[tuple[int, int]](), []
    for turn in range(turns):
        if (drawn := held.draw(range(calls))) is None:
            continue
        some = [(turn, call) for call in sorted(drawn.calls)]
        held.put(drawn, some)
        place, bits = divmod(drawn.word, 1 << gate.CALL_BITS)
        theirs[place : place + len(some)] = [(turn, c) for c in range(calls) if bits >> c & 1]
    held.all_are(lambda one: not seen.append(one))  # type: ignore[func-returns-value]
    assert seen == theirs
    return seen


def test_any_turn_may_be_the_one_that_is_looked_at_again() -> None:
    """No place in a block, late or early, in which nothing is ever held."""
    found = Counter(turn for _ in range(TIMES) for turn, _ in held_after(TURNS, 1))
    assert set(found) == set(range(TURNS))
    assert max(found.values()) < 5 * TIMES * MOST_HELD / TURNS


@pytest.mark.parametrize(
    ("each_bytes", "count"), [(1, MOST_HELD), (HELD_BYTES // 2, 2), (4 * HELD_BYTES, 1)]
)
def test_there_are_fewer_of_large_ones(each_bytes: int, count: int) -> None:
    assert len(held_after(TURNS, each_bytes)) == count
    assert len(held_after(1, each_bytes, calls=MOST_HELD)) == count  # from the first turn on


def test_what_is_replaced_is_handed_back() -> None:
    held = OutputReservoir[str](HELD_BYTES)
    assert held.put(Selection(0, [1]), ["a"]) == []
    assert held.put(Selection(0, [0]), ["b"]) == ["a"]
    assert held.all_are("b".__eq__)
