"""Which updates are too small, or too well known, to prove that their work was done."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from harness.judge.correctness import oracle, tolerance
from harness.judge.exchange.input_sets import LeftValue
from harness.judge.timing import slight_changes

FLAGS = LeftValue(
    torch.ones(4, dtype=torch.bool),
    torch.ones(4, dtype=torch.bool),
    tolerance.Allowance(0.0, 0.0, 0.0, 0.0, 0.0),
)


@pytest.mark.parametrize(
    ("change", "rule", "is_slight"),
    [
        (0.0, "rounding", True),
        (3e-3, "rounding", True),
        (0.1, "rounding", False),
        (0.0, "equal", False),
    ],
)
def test_an_update_within_a_few_tolerances_proves_nothing(
    change: float, rule: Any, is_slight: bool
) -> None:
    before, turned = torch.ones(64), torch.tensor([1.0, -1.0]).repeat(32)
    assert not slight_changes.is_slight(torch.ones(4, dtype=torch.bool), FLAGS)
    limits = tolerance.Allowance(1e-3, 1e-3, 1e-3, 0.0, 0.0, rule)
    value = before + change * turned
    left = LeftValue(value.double(), value, limits)
    assert slight_changes.is_slight(before, left) is is_slight


def left_by(before: torch.Tensor, expected: torch.Tensor) -> LeftValue:
    value = expected.to(before.dtype)
    return LeftValue(expected, value, tolerance.derive_carried(expected, value, expected, 256)[0])


def test_slow_rows_beside_a_lively_one_are_slight() -> None:
    torch.manual_seed(1)
    before = torch.randn(65, 64)
    expected = before.double() + 3e-6 * torch.randn(65, 64, dtype=torch.float64)
    expected[0] = torch.randn(64)
    left = left_by(before, expected)
    assert not oracle.is_right(before, expected, tolerance.widen(left.allowance, 4.0))
    assert slight_changes.little_changed(before, left) == pytest.approx(64 / 65, abs=0.01)
    assert slight_changes.is_slight(before, left)


@pytest.mark.parametrize("decays", [(1, 1), (64, 1), (1, 48)])  # whole, by rows, by columns
@pytest.mark.parametrize(
    ("share", "dtype"),
    [(1e-6, torch.float32), (1e-2, torch.float32), (1e-3, torch.bfloat16), (1e-6, torch.complex64)],
)
def test_what_fades_by_a_factor_alone_is_slight(
    share: float, dtype: torch.dtype, decays: tuple[int, int]
) -> None:
    torch.manual_seed(1)
    wide = torch.complex128 if dtype.is_complex else torch.float64
    before = torch.randn(64, 48, dtype=wide).to(dtype)
    factors = 0.3 + 0.7 * torch.rand(decays, dtype=torch.float64)
    expected = factors * before.to(wide) + share * torch.randn(64, 48, dtype=wide)
    assert slight_changes.is_slight(before, left_by(before, expected)) is (share < 1e-2)


def test_one_number_fades_in_any_case() -> None:
    before = torch.tensor([2.0])
    assert not slight_changes.is_slight(before, left_by(before, torch.tensor([1.5]).double()))


@pytest.mark.parametrize("part", [0.2, 0.3])
def test_a_quarter_may_change_little(part: float) -> None:
    torch.manual_seed(1)
    before, slow = torch.randn(100, 64), int(100 * part)
    expected = torch.randn(100, 64).double()
    expected[:slow] = before[:slow].double() * (1 + 1e-6)
    assert slight_changes.is_slight(before, left_by(before, expected)) is (part > 0.25)


@pytest.mark.parametrize(
    ("dtype", "lines"),
    [
        (torch.float32, 1),
        (torch.bfloat16, 1),
        (torch.complex64, 1),
        (torch.float8_e4m3fn, 64),
        (torch.float8_e5m2, 64),
    ],
)
def test_lines_that_are_not_written_do_not_count(dtype: torch.dtype, lines: int) -> None:
    torch.manual_seed(1)
    numbers = torch.complex64 if dtype.is_complex else torch.float32
    wide = torch.complex128 if dtype.is_complex else torch.float64
    before = torch.randn(128, 256, dtype=numbers).to(dtype)
    expected = before.to(wide)
    expected[7 : 7 + lines] = torch.randn(lines, 256, dtype=wide)
    assert slight_changes.little_changed(before, left_by(before, expected)) < 0.2
    assert not slight_changes.is_slight(before, left_by(before, expected))


@pytest.mark.parametrize("size", [1.0, 10.0])  # of the line
def test_a_line_that_hardly_changes_is_slight_beside_a_lively_value(size: float) -> None:
    torch.manual_seed(1)
    before = torch.randn(128, 256)
    before[7] *= size
    expected = before.double()
    expected[7] *= 1 + 1e-5  # more than the tolerance of the whole, less than that of a row
    expected[8, 0] += 3.0
    assert slight_changes.is_slight(before, left_by(before, expected))


@pytest.mark.parametrize(
    ("momentum", "dtype"),
    [(0.1, torch.float32), (0.01, torch.float32), (0.001, torch.float32), (0.1, torch.bfloat16)],
)
def test_running_averages_are_not_slight(momentum: float, dtype: torch.dtype) -> None:
    torch.manual_seed(1)
    before = (1 + torch.randn(256) / 4).abs().to(dtype)
    expected, rounded = before.double(), before.clone()
    for _ in range(50):
        variance = torch.randn(256, 256).to(dtype).var(dim=0)
        expected.lerp_(variance.double(), momentum)
        rounded.lerp_(variance, momentum)
    allowance, _ = tolerance.derive_carried(expected, rounded, expected, 256)
    left = LeftValue(expected, rounded, allowance)
    assert slight_changes.little_changed(before, left) < 0.2
    assert not slight_changes.is_slight(before, left)


def test_what_is_not_finite_or_does_not_change_is_no_change() -> None:
    before = torch.tensor([torch.inf, torch.nan, 1.0, 2.0])
    left = left_by(before, before.double())
    assert slight_changes.little_changed(before, left) == 0.0
    expected = before.double()
    expected[3] = 3.0
    assert slight_changes.little_changed(before, left_by(before, expected)) == 0.0
