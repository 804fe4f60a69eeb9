"""Results on other inputs, as far as they are wrong."""

from __future__ import annotations

import torch

from harness.workers.settled_results import settling


def test_whole_numbers_between_right_ones_are_right() -> None:
    expected = [torch.tensor([5, 5, 5, 7]), torch.tensor([True, False])]
    sides = [[torch.tensor([5, 7, 3, 7]), torch.tensor([True, True])]]
    found = [torch.tensor([6, 6, 2, 7]), torch.tensor([False, True])]
    settled = settling(lambda _: found, expected, sides)([])
    assert settled[0].tolist() == [6, 5, 2, 7]
    assert settled[1].tolist() == [False, False]


def test_other_numbers_are_as_far_off_as_from_the_nearest_right_one() -> None:
    expected = [torch.tensor([1.0, 1.0, 1.0], dtype=torch.float64)]
    sides = [[torch.tensor([1.0, 2.0, 2.0])]]
    found = [torch.tensor([1.25, 2.25, 1.125], dtype=torch.float64)]
    (settled,) = settling(lambda _: found, expected, sides)([])
    assert settled.tolist() == [1.25, 1.25, 1.125]


def test_without_other_right_results_nothing_is_settled() -> None:
    def call(_: object) -> list[torch.Tensor]:
        return []

    assert settling(call, [], []) is call
