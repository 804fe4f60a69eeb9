"""The oracle on honest rounding and on typical mistakes."""

from __future__ import annotations

import pytest
import torch

from harness.judge import oracle


def judge(candidate: torch.Tensor, expected: torch.Tensor, reduction: int = 64, bitwise: bool = False) -> oracle.Finding:
    framework = expected.to(candidate.dtype)
    allowed = oracle.allowance(expected, framework, reduction)
    return oracle.compare(candidate, expected, allowed, reduction, framework, bitwise)


def rows(count: int = 64, width: int = 256) -> torch.Tensor:
    return torch.randn(count, width, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float64])
def test_the_rounded_reference_is_right(dtype: torch.dtype) -> None:
    found = judge(rows().to(dtype), rows())
    assert (found.signal, found.bitwise_equal) == (None, True)


def test_a_sequential_sum_in_single_precision_is_right() -> None:
    terms = torch.rand(128, 4096, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    total = torch.zeros(128)
    for column in terms.float().unbind(1):
        total = total + column
    assert judge(total, terms.float().double().sum(1), 4096).signal is None


def test_a_sum_in_half_precision_is_not() -> None:
    terms = torch.rand(128, 4096, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    total = torch.zeros(128, dtype=torch.float16)
    for column in terms.half().unbind(1):
        total = total + column
    assert judge(total.float(), terms.sum(1), 4096).signal == "wrong.precision"


def test_lower_precision_inside_is_seen() -> None:
    assert judge(rows().bfloat16().float(), rows()).signal == "wrong.precision"


@pytest.mark.parametrize(
    ("signal", "spoil"),
    [
        ("wrong.tail", lambda t: t[:, -4:].zero_()),
        ("wrong.rows", lambda t: t[5].mul_(2)),
        ("wrong.values", lambda t: t.neg_()),
        ("wrong.non_finite", lambda t: t[3].fill_(float("nan"))),
        ("wrong.rows", lambda t: t[7, 9].add_(0.01)),
        ("wrong.uninitialized", lambda t: t.view(torch.uint8).fill_(0x5A)),
    ],
)
def test_mistakes_are_named_and_placed(signal: str, spoil: object) -> None:
    candidate = rows().float()
    spoil(candidate)  # type: ignore[operator]
    found = judge(candidate, rows())
    assert found.signal == signal
    assert "expected" in found.detail


def test_integers_must_be_equal_to_the_reference_or_to_the_framework() -> None:
    expected, framework = torch.tensor([1, 2, 3]), torch.tensor([1, 2, 4])
    allowed = oracle.allowance(expected, framework, 1)
    for value in ([1, 2, 3], [1, 2, 4]):
        assert oracle.compare(torch.tensor(value), expected, allowed, 1, framework).signal is None
    assert oracle.compare(torch.tensor([1, 2, 5]), expected, allowed, 1, framework).signal is not None


def test_infinities_must_agree_in_place_and_sign() -> None:
    expected = rows()
    expected[0, 0] = float("inf")
    assert judge(expected.float(), expected).signal is None
    assert judge(-expected.float(), expected).signal is not None
    assert judge(rows().float(), expected).signal == "wrong.non_finite"


def test_bitwise() -> None:
    assert judge(rows().float(), rows(), bitwise=True).signal is None
    nudged = rows().float()
    nudged[0, 0] = torch.nextafter(nudged[0, 0], torch.tensor(9.0))
    assert judge(nudged, rows()).signal is None
    assert judge(nudged, rows(), bitwise=True).signal == "wrong.not_bitwise"


def test_an_empty_output_is_right() -> None:
    assert judge(torch.zeros(0, 4), torch.zeros(0, 4, dtype=torch.float64)).signal is None


def test_a_small_output_is_judged_by_its_own_scale() -> None:
    assert judge((rows() * 1e-6).float() * 0, rows() * 1e-6).signal is not None
