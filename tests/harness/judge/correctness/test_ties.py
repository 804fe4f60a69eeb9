"""What is expected where either of two neighbours is right."""

from __future__ import annotations

import math

import pytest
import torch

from harness.judge.correctness import oracle, ties, tolerance


def of(dtype: torch.dtype) -> tuple[torch.Tensor, list[torch.Tensor]]:
    """Sixteen values, and what else is right: 4 in place of 5, and 12 in place of 11."""
    wanted = torch.arange(16.0, dtype=torch.float64).reshape(4, 4)
    wanted = wanted if dtype.is_floating_point else wanted.to(dtype)
    down, up = wanted.to(dtype).clone(), wanted.to(dtype).clone()
    down.view(-1)[5], up.view(-1)[11] = 4, 12
    return wanted, [down, up]


@pytest.mark.parametrize("dtype", [torch.int8, torch.float32, torch.bfloat16])
def test_either_neighbour_is_right_where_there_are_two(dtype: torch.dtype) -> None:
    wanted, turned = of(dtype)
    own = wanted.to(dtype).clone()
    for place, value in ((5, 4), (11, 12)):
        own.view(-1)[place] = value
        found = ties.settle(own, wanted, turned)
        assert torch.equal(found.to(dtype), own)
    assert torch.equal(wanted.to(dtype).view(-1)[[5, 11]], torch.tensor([5, 11], dtype=dtype))


@pytest.mark.parametrize("dtype", [torch.int8, torch.float32])
@pytest.mark.parametrize(("place", "value"), [(6, 5), (5, 6), (11, 10), (5, 3), (0, 1)])
def test_and_nothing_else_is(dtype: torch.dtype, place: int, value: int) -> None:
    wanted, turned = of(dtype)
    own = wanted.to(dtype).clone()
    own.view(-1)[place] = value
    found = ties.settle(own, wanted, turned)
    allowed = tolerance.derive(wanted, wanted.to(dtype), 16)
    assert oracle.compare(own, found, allowed, wanted.to(dtype)).signal is not None


@pytest.mark.parametrize(
    ("value", "right"), [(3, False), (4, True), (7, True), (9, True), (10, False)]
)
def test_whole_numbers_between_right_ones_are_right_if_asked(value: int, right: bool) -> None:
    wanted = torch.full((3,), 6)
    turned = [torch.full((3,), 4), torch.full((3,), 9)]
    own = torch.tensor([6, value, 6])
    assert torch.equal(ties.settle(own, wanted, turned, between=True), own) is right


@pytest.mark.parametrize("dtype", [torch.bool, torch.float32, torch.uint16, torch.float8_e8m0fnu])
def test_nothing_between_is_right_for_what_is_no_count(dtype: torch.dtype) -> None:
    wanted, turned = torch.tensor([1.0, 1.0]).to(dtype), torch.tensor([0.0, 8.0]).to(dtype)
    own = torch.tensor([0.5, 4.0]).to(dtype)
    found = ties.settle(own, wanted, [turned], between=True)
    allowed = [wanted.to(torch.float64), turned.to(torch.float64)]
    assert all(float(each) in [float(a[n]) for a in allowed] for n, each in enumerate(found))


def test_without_alternatives_what_is_expected_stays() -> None:
    wanted, _ = of(torch.float32)
    assert ties.settle(wanted.float(), wanted, []) is wanted
    assert ties.settle(wanted.float(), wanted, [wanted.float()] * 2) is wanted


def test_values_that_are_no_numbers_stay_as_they_are() -> None:
    wanted, turned = of(torch.float32)
    for each in (wanted, *turned):
        each.view(-1)[:3] = torch.tensor([math.nan, math.inf, -math.inf])
    found = ties.settle(wanted.float(), wanted, turned)
    assert torch.equal(found.isnan(), wanted.isnan())
    own = wanted.float()
    own.view(-1)[5] = math.nan
    assert float(ties.settle(own, wanted, turned).view(-1)[5]) == 5


@pytest.mark.parametrize(
    "dtype", [torch.float8_e4m3fn, torch.float8_e8m0fnu, torch.uint32, torch.complex64, torch.bool]
)
def test_every_dtype_of_an_output_can_be_asked(dtype: torch.dtype) -> None:
    wanted = torch.ones(4, 4).to(dtype)
    assert torch.equal(
        ties.settle(wanted, wanted, [wanted.clone()] * 2).to(torch.complex64),
        torch.ones(4, 4, dtype=torch.complex64),
    )


def test_the_place_of_an_equal_value_is_right_once() -> None:
    source = torch.tensor([[3.0, 5.0, 5.0, 1.0, 5.0], [2.0, 2.0, 0.0, 9.0, 1.0]])
    wanted = torch.tensor([[1, 2], [3, 0]])

    def settled(*places: list[int]) -> bool:
        given = torch.tensor(places)
        return torch.equal(ties.settle_order(given, wanted, source, 1), given)

    assert settled([4, 1], [3, 1])
    assert settled([2, 4], [3, 0])
    assert not settled([1, 1], [3, 0])
    assert not settled([1, 0], [3, 0])
    assert not settled([1, 2], [3, 7])
    assert not settled([1, 2], [3, -1])
    # without the axis each row has one place
    one = ties.settle_order(torch.tensor([4, 2]), torch.tensor([1, 0]), source, 1)
    assert one.tolist() == [4, 0]
