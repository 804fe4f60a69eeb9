"""Operators that decide: what they decide on, and which other decisions are right."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from harness.wire.slack import Slack
from harness.workers import certainties, decisions, high_precision, rounding

SLACK = Slack(2 * certainties.SINGLE, 0, 0, 1)
Call = Callable[[list[torch.Tensor]], list[torch.Tensor]]


def certain(call: Call, given: list[torch.Tensor]) -> list[certainties.Certainty]:
    return certainties.find(call, given, call, high_precision.to_double(given))


def kinds(call: Call, given: list[torch.Tensor]) -> list[certainties.Kind]:
    return [each.kind for each in certain(call, given)]


def alternatives(call: Call, given: list[torch.Tensor]) -> list[list[torch.Tensor]]:
    dtypes = [t.dtype for t in call(given)]
    wide = high_precision.to_double(given)
    return rounding.compute_alternatives(call, wide, SLACK, dtypes, certain(call, given))


def left_open(call: Call, given: list[torch.Tensor]) -> list[int]:
    wide = high_precision.to_double(given)
    return rounding.outputs_left_open(call, wide, SLACK, call(wide), certain(call, given))


def is_open(call: Call, given: list[torch.Tensor]) -> bool:
    return bool(left_open(call, given))


def best(given: list[torch.Tensor]) -> list[torch.Tensor]:
    return [torch.softmax(given[0], -1).argmax(-1)]


@pytest.mark.parametrize("count", [8, 64, 1024])
@pytest.mark.parametrize("apart", [1, 4, 5])
def test_either_of_two_values_within_a_rounding_is_the_largest(count: int, apart: int) -> None:
    row = torch.randn(count, dtype=torch.float64).clamp(max=2)
    row[0], row[apart] = 3.0 + 2.0**-25, 3.0
    found = {int(side[0]) for side in alternatives(best, [row[None]])}
    assert found == {0, apart}
    row[0] = 3.001  # further than that
    assert {int(side[0]) for side in alternatives(best, [row[None]])} == {0}


def test_what_single_precision_holds_for_equal_has_any_order() -> None:
    """Beside a third value that is as close as roundings of the largest, but not equal."""
    row = torch.zeros(16, dtype=torch.float64)
    row[4], row[9], row[11] = 150.0, 46.5, 46.4  # shares of 1, and of a few denormal numbers
    row[2] = 46.0
    single = torch.softmax(row.float(), -1)
    assert single[9] == single[11] > single[2]

    def second(given: list[torch.Tensor]) -> list[torch.Tensor]:
        return [torch.softmax(given[0], -1).topk(2)[1][:, 1]]

    assert {9, 11} <= {int(side[0]) for side in alternatives(second, [row.float()[None]])}


def test_a_number_within_a_rounding_of_a_sum_falls_on_both_sides() -> None:
    def call(given: list[torch.Tensor]) -> list[torch.Tensor]:
        sums, numbers = given[0].cumsum(-1), given[1]
        return [torch.searchsorted(sums, numbers), sums > numbers[:, :1]]

    values = torch.full((1, 8), 0.125, dtype=torch.float64)
    numbers = torch.tensor([[0.5 + 2.0**-30, 0.55]], dtype=torch.float64)
    sides = alternatives(call, [values, numbers])
    assert {int(side[0][0, 0]) for side in sides} == {3, 4}
    assert {int(side[0][0, 1]) for side in sides} == {4}
    assert {bool(side[1][0, 3]) for side in sides} == {True, False}


@pytest.mark.parametrize(
    ("call", "found"),
    [
        (lambda given: [torch.softmax(given[0], -1).topk(2)[1]], True),  # all others are 0
        (lambda given: [torch.softmax(given[0], -1).argmax(-1)], False),
        (lambda given: [torch.softmax(given[0], -1).argmin(-1)], True),
        (lambda given: [torch.softmax(given[0], -1).topk(1, largest=False)[1]], True),
        (lambda given: [given[0].topk(2, largest=False)[1]], False),  # of inputs: see open_ties
        (lambda given: [torch.exp(given[0] / 1e4).sort(-1).indices], False),
        (lambda given: [torch.softmax(given[0], -1).max(-1).values], False),
        (lambda given: [torch.softmax(given[0], -1).max()], False),
        (lambda given: [torch.exp(given[0].sum()).sort().indices], False),
    ],
)
def test_an_order_of_equal_computed_values_is_open(call: Call, found: bool) -> None:
    given = torch.randn(4, 16)
    given[:, 3] = 4000.0
    assert is_open(call, [given]) is found


def test_exact_values_are_not_moved_where_others_are() -> None:
    """Nor are zeros where only a factor came before: whoever confuses > and >= is wrong."""

    def call(given: list[torch.Tensor]) -> list[torch.Tensor]:
        product = given[0] * given[3] * 1e-9 > 0.0
        return [
            product,
            torch.softmax(given[1], -1).argmax(-1),
            torch.relu(given[0]) > 0,
            torch.bucketize(given[2], given[4]),
            torch.round(given[2] * 0.5),
            given[0] - given[0].mean() > 0.0,
        ]

    whole, edges = torch.randint(0, 8, (4, 64)).float(), torch.arange(8.0)
    given = [torch.randn(4, 64).relu(), torch.randn(4, 64), whole, torch.rand(4, 64), edges]
    found = kinds(call, given)
    assert found == ["relative", "uncertain", "exact", "exact", "exact", "uncertain"]
    expected = call(high_precision.to_double(given))
    for side in alternatives(call, given):
        for number in (0, 2, 3, 4):
            assert torch.equal(side[number], expected[number].to(side[number].dtype))


def test_only_what_depends_on_an_order_of_equal_values_is_left_open() -> None:
    def call(given: list[torch.Tensor]) -> list[torch.Tensor]:
        level = torch.softmax(given[0], -1).sum(-1).clamp(max=0.5)
        places = level.argsort(descending=True, stable=True)
        return [given[0].exp().mean(-1), places, given[0][places], given[0] > 0.25]

    given = [torch.randn(8, 64)]
    assert left_open(call, given) == [1, 2]


def test_an_order_of_values_that_became_missing_is_open() -> None:
    def sampled(given: list[torch.Tensor]) -> list[torch.Tensor]:
        return [(given[0] - torch.log(-torch.log(given[1]))).argmax(-1)]

    logits, uniform = torch.randn(4, 16), torch.rand(4, 16).clamp(0.01, 0.99)
    assert not is_open(sampled, [logits, uniform])
    assert is_open(sampled, [logits, 30 * uniform])
    logits[0, 3] = float("nan")  # given as such: any form finds it
    assert not is_open(sampled, [logits, uniform])


def test_a_scale_from_a_maximum_leaves_nothing_open() -> None:
    def quantized(given: list[torch.Tensor]) -> list[torch.Tensor]:
        step = given[0].abs().max(-1, keepdim=True).values / 127
        return [torch.round(given[0] / step).to(torch.int8)]

    given = torch.randn(64, 512).bfloat16().float()
    given[:, :9] = 4.0
    assert not is_open(quantized, [given])


def test_a_single_number_has_no_order() -> None:
    for name, args in (("sort", [-1]), ("topk", [1, -1]), ("max", [0])):
        assert decisions.compared(name, [torch.tensor(3.0), *args], {}) == []


def test_what_overflows_in_the_framework_alone_is_not_exact() -> None:
    def call(given: list[torch.Tensor]) -> list[torch.Tensor]:
        return [given[0] * given[0] > 100.0]

    assert kinds(call, [torch.full((4,), 300.0, dtype=torch.float16)]) == ["relative"]


def test_an_order_beside_outputs_of_eight_bits_is_found() -> None:
    def call(given: list[torch.Tensor]) -> list[torch.Tensor]:
        shares = torch.softmax(given[0], -1)
        return [given[0].to(torch.float8_e4m3fn), shares.topk(2).indices]

    given = torch.randn(4, 16)
    given[:, 3] = 4000.0
    assert left_open(call, [given]) == [1]


def test_other_operators_beside_a_decision_do_not_matter() -> None:
    """What decides is followed by the flow of data; a product that is zero has no error, whatever
    dtype the reference fixes."""
    codes = torch.randint(-4, 4, (64,)).clamp(min=0).to(torch.int8)

    def call(given: Any) -> Any:
        x, codes = given
        noise = torch.nn.functional.softplus(x)
        return [torch.where(codes.float() * 0.125 > 0, x, noise), (noise > 1).int()]

    assert kinds(call, [torch.randn(64), codes]) == ["relative", "uncertain"]


def test_values_written_into_a_tensor_count() -> None:
    def call(given: Any) -> Any:
        kept = torch.zeros_like(given[0])
        kept[:32] = given[0][:32].exp()
        return [(kept > 0).int()]

    assert kinds(call, [torch.randn(64)]) == ["uncertain"]


def test_a_number_that_the_reference_reads_is_as_certain_as_its_tensor() -> None:
    def call(given: Any) -> Any:
        return [(given[0] > given[0].mean().item()).int()]

    assert kinds(call, [torch.randn(64)]) == ["uncertain"]


def test_a_reference_may_have_tensors_without_storage() -> None:
    def call(given: Any) -> Any:
        return [(given[0].to_sparse().to_dense().exp() > 1).int()]

    assert kinds(call, [torch.randn(8, 8)]) == ["uncertain"]
