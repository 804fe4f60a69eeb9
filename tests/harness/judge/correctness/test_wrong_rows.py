"""What an author reads of the rows that are wrong."""

from __future__ import annotations

import torch

from harness.judge.correctness import wrong_rows


def dump(wrong: list[tuple[int, ...]], shape: tuple[int, ...], *inputs: torch.Tensor) -> str:
    expected = torch.arange(float(torch.Size(shape).numel())).view(shape)
    candidate, mask = expected.clone(), torch.zeros(shape, dtype=torch.bool)
    for place in wrong:
        candidate[place], mask[place] = -1.0, True
    return wrong_rows.dump(candidate, expected, mask, inputs)


def test_a_row_stands_beside_its_input() -> None:
    shown = dump([(3, 5), (3, 19)], (8, 20), torch.arange(160.0).view(8, 20) / 2)
    assert "float32[8, 20]: 1 of 8 rows along the last axis have wrong elements" in shown
    assert "row [3], elements 5 to 12 of 20 (2 wrong, the first is 5):" in shown
    assert "expected 65 66 67 68 69 70 71 72 ..." in shown
    assert "computed -1 66 67 68 69 70 71 72 ..." in shown
    assert "input 0 float32[8, 20] 32.5 33 33.5" in shown


def test_an_input_without_such_a_row_is_summed_up() -> None:
    shown = dump([(0, 1)], (4, 4), torch.linspace(-2, 3, 9))
    assert "the other inputs:\n  input 0 float32[9]: no such row; from -2 to 3" in shown


def test_rows_of_more_axes_and_two_at_most() -> None:
    places = [(1, 2, 0), (0, 1, 3), (1, 0, 2), (1, 1, 1)]
    shown = dump(places, (2, 3, 4), torch.arange(2 * 3 * 5).view(2, 3, 5))
    assert [line[: line.index(",", 9) + 1] for line in shown.splitlines() if "row [" in line] == [
        "row [0, 1],",
        "row [1, 0],",
    ]
    assert "4 of 6 rows" in shown
    assert "input 0 int64[2, 3, 5] 5 6 7 8 9" in shown


def test_a_number_has_one_row() -> None:
    assert "row [], elements 0 to 0 of 1 (1 wrong" in dump([()], ())
