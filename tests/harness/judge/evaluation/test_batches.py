"""Which checking sets go in one burst."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from harness.judge.evaluation import batches


def sets(*families: str) -> list[Any]:
    return [SimpleNamespace(family=family) for family in families]


FAMILIES = ("dense", "dense", "scaled", "special", "uneven", "zeros", "moved", "ties", "raised")


@pytest.mark.parametrize("most", [2, 3, 8])
def test_each_set_is_in_one_batch_and_those_that_vary_come_first(most: int) -> None:
    given = sets(*FAMILIES)
    found = batches.divide(given, most)
    assert found[0] == given[:2]
    assert all(len(batch) <= most for batch in found[1:])
    assert sorted(id(each) for batch in found for each in batch) == sorted(map(id, given))
    rest = [each.family for batch in found[1:] for each in batch]
    assert rest == ["scaled", "uneven", "moved", "raised", "special", "zeros", "ties"]


def test_a_single_set_is_a_batch() -> None:
    (only,) = sets("grown")
    assert batches.divide([only], 8) == [[only]]


@pytest.mark.parametrize(
    ("input_bytes", "held_calls", "shared", "most"),
    [
        (1000, 24, False, 8),
        (1000, 6, False, 4),
        (1000, 3, False, 2),  # three calls are held where a call takes seconds
        (10 << 20, 24, False, 3),
        (1 << 30, 24, False, 2),
        (1000, 24, True, 2),
    ],
)
def test_as_many_sets_as_inputs_and_outputs_allow(
    input_bytes: int, held_calls: int, shared: bool, most: int
) -> None:
    pool: Any = SimpleNamespace(input_bytes=input_bytes, shared=shared)
    assert batches.most_sets(pool, held_calls) == most
    assert most == 2 or 3 * most // 2 <= held_calls


def test_of_the_longer_ones_the_first_and_one_whose_results_vary() -> None:
    found = batches.divide(sets(*FAMILIES), 2)
    for _ in range(20):
        first, other = batches.longer(found)
        assert first is found[0]
        assert any(other is each for each in found[1:3])
    assert len(batches.longer(batches.divide(sets("dense", "dense", "zeros"), 8))) == 1
