"""How certain the values are on which a reference decides."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from harness.judge.correctness import tolerance
from harness.wire.slack import Slack
from harness.workers import certainties, high_precision, rounding

Call = Callable[[list[torch.Tensor]], list[torch.Tensor]]
BIN = torch.zeros(4096, dtype=torch.int64)
SLACK = Slack(certainties.SINGLE, 1.0, 0.0, 1 << 20)  # of plain inputs


def certain(call: Call, *given: torch.Tensor) -> list[certainties.Certainty]:
    inputs = list(given)
    return certainties.find(call, inputs, call, high_precision.to_double(inputs))


def open_elements(call: Call, *given: torch.Tensor) -> torch.Tensor:
    """Return where another output is right as well."""
    precise = high_precision.to_double(list(given))
    (expected,) = call(precise)
    sides = rounding.compute_alternatives(
        call, precise, SLACK, [expected.dtype], certain(call, *given)
    )
    return torch.stack([side != expected for (side,) in sides]).any(0)


def test_slack_is_the_oracles_floor() -> None:
    repeated = Slack(certainties.SINGLE, 1.0, 1.0, 1 << 20)
    for terms in (1, 16, 1024):
        assert SLACK.of(terms) == pytest.approx(tolerance.floor("float32", terms))
        growth = max(1.0, terms**0.5 / 2)
        assert repeated.of(terms) == pytest.approx(tolerance.floor("float32", terms, growth))
    assert SLACK.of(1 << 30) == SLACK.largest == SLACK.of(1 << 20)


@pytest.mark.parametrize(
    ("call", "terms"),
    [
        (lambda x: [x[0] * x[1].amax() > 1.0], 1),
        (lambda x: [x[0] * x[1] + x[0] - 1.0 > 0], 3),
        (lambda x: [torch.exp(x[0]) > 1.5], certainties.APPROXIMATION),
        (lambda x: [x[0] @ x[1].T > 1.5], 256),
        (lambda x: [x[0].sum(0) > 1.5], 4096),
        (lambda x: [x[0].sum(1) > 1.5], 256),
        (lambda x: [torch.softmax(x[0][:8], 1) > 0.01], 256),
        (lambda x: [x[0].square() > 0.5], 1),
        (lambda x: [x[0].abs().pow(2.5) > 0.5], certainties.APPROXIMATION),
        (lambda x: [x[0][:2].index_add(0, BIN, x[0]) > 0.5], 1 << 20),
        (lambda x: [x[0][:2, 0].index_put((BIN,), x[0][:, 0], accumulate=True) > 0.5], 4096),
        (
            lambda x: [torch.view_as_complex(x[0].view(-1, 2)).abs() > 0.5],
            certainties.APPROXIMATION,
        ),
        (lambda x: [torch.round(x[0] / x[0].abs().amax(1, keepdim=True) * 127)], 17),
    ],
)
def test_roundings_behind_a_value_are_counted(call: Call, terms: int) -> None:
    """Rows that are computed alone do not count."""
    made = certain(call, torch.randn(4096, 256), torch.randn(4096, 256))
    assert [each.terms for each in made] == [terms]


def test_what_the_framework_is_off_by_counts_where_it_is_rounding() -> None:
    def open_share(by: float, mask: float = 0.0) -> float:
        def call(x: list[torch.Tensor]) -> list[torch.Tensor]:
            noise = torch.randn(x[0].shape, generator=torch.Generator().manual_seed(1))
            inexact = x[0].dtype == torch.float32
            values = x[0] * x[1] * (1 + by * noise if inexact else 1)
            return [values.masked_fill(x[0] > mask, -1e9) + 1e-3 > 0.5 if mask else values > 0.5]

        torch.manual_seed(1)
        found = open_elements(call, torch.randn(512, 512), torch.randn(512, 512))
        return float(found.float().mean())

    assert open_share(0.0) < 1e-5
    assert open_share(3e-4) > 1e-4
    assert open_share(3e-4, mask=-0.5) > 1e-4  # most are exact
    assert open_share(0.1) < 0.01


def test_small_values_beside_large_ones_are_certain() -> None:
    torch.manual_seed(1)
    kept = (torch.rand(64, 1024) > 0.25).float()
    noise = 1e-6 * torch.randn(64, 1024)
    assert not bool(
        open_elements(lambda x: [x[0] + x[1] > 0], torch.randn(64, 1024) * kept, noise)[
            kept == 0
        ].any()
    )
    values, few = torch.randint(1, 5, (1024, 16)) / 4.0, 5e-6 * torch.rand(1024, 16)
    found = open_elements(lambda x: [(x[0] + x[1]).argmax(1)], values, few)
    assert float(found.float().mean()) < 0.2


def test_a_difference_of_large_values_is_as_uncertain_as_these() -> None:
    torch.manual_seed(1)
    x = 1e4 + torch.randn(256, 1024)
    found = open_elements(lambda given: [given[0] - given[0].mean(1, keepdim=True) > 0], x)
    single = (x - x.mean(1, keepdim=True) > 0) != (x.double() - x.double().mean(1, True) > 0)
    assert bool(single.any())
    assert not bool((single & ~found).any())
    assert float(found.float().mean()) < 0.2


@pytest.mark.parametrize(
    "cut",
    [torch.floor, torch.ceil, torch.trunc, lambda x: x.to(torch.int32)],
)
def test_what_is_cut_off_may_be_on_either_side_of_a_border(
    cut: Callable[[torch.Tensor], torch.Tensor],
) -> None:
    def call(given: list[torch.Tensor]) -> list[torch.Tensor]:
        return [cut(given[0] / given[1])]

    torch.manual_seed(1)
    points, sizes = 100 * torch.rand(1 << 16, 3), torch.tensor([0.16, 0.17, 0.2])
    found = open_elements(call, points, sizes)
    own = cut(points * sizes.reciprocal())
    (wanted,) = call([points.double(), sizes.double()])
    assert bool((own != wanted).any())
    assert not bool(((own != wanted) & ~found).any())
    assert float(found.float().mean()) < 0.001
    points[0] = 4 * sizes  # a quotient may be whole by chance
    assert bool(open_elements(call, points, sizes)[0].all())
    # but not by its own structure
    assert not bool(open_elements(call, torch.arange(64.0), torch.full((64,), 0.5)).any())

    def rounded(given: list[torch.Tensor]) -> list[torch.Tensor]:
        return [torch.round(given[0] / given[1])]

    def cut_again(given: list[torch.Tensor]) -> list[torch.Tensor]:
        return [cut(rounded(given)[0])]

    assert torch.equal(
        open_elements(cut_again, points, sizes), open_elements(rounded, points, sizes)
    )


def test_eight_bit_floats_have_two_right_neighbours_where_rounding_decides() -> None:
    def call(given: list[torch.Tensor]) -> list[torch.Tensor]:
        scale = given[0].abs().amax(1, keepdim=True) / 448
        return [(given[0] / scale).to(torch.float8_e4m3fn).to(given[0].dtype)]

    torch.manual_seed(1)
    x = torch.randn(1024, 1024)
    found = open_elements(call, x)
    own = (x * (448 / x.abs().amax(1, keepdim=True))).to(torch.float8_e4m3fn).double()
    wrong = own != call([x.double()])[0]
    assert bool(wrong.any())
    assert not bool((wrong & ~found).any())
    assert float(found.float().mean()) < 1e-4


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (lambda x: [x[0].to(torch.int8)], 0.0),
        (lambda x: [(x[0] * x[1]).to(torch.bfloat16)], 0.0),
        (lambda x: [(x[0] > x[1].mean()).float()], 0.0),
        (lambda x: [(x[0] * x[1]).to(torch.uint8)], certainties.SINGLE),
        (lambda x: [(x[0] * x[1]).to(torch.float8_e5m2).float()], certainties.SINGLE),
    ],
)
def test_casts_alone_decide_where_they_round(call: Call, expected: float) -> None:
    inputs = [torch.rand(64, 64), torch.rand(64, 64)]
    precise = high_precision.to_double(inputs)
    assert certainties.unit(call, inputs, call, precise, rounding=True) == expected


@pytest.mark.parametrize("growth", [1.0, 4.0, 64.0, 96.0])
def test_what_is_computed_in_sixteen_bits_stays_decided(growth: float) -> None:
    """Roundings of its own tell nothing of what an honest kernel computes otherwise."""

    def call(given: list[torch.Tensor]) -> list[torch.Tensor]:
        return [(given[0].bfloat16() @ given[1].bfloat16()).to(given[0].dtype) > 0.5]

    torch.manual_seed(1)
    given = [torch.randn(256, 512), torch.randn(512, 128) / 512**0.5]
    slack = Slack(certainties.SINGLE, growth, 0.0, 1 << 20)
    precise = high_precision.to_double(given)
    sides = rounding.compute_alternatives(
        call, precise, slack, [torch.bool], certainties.find(call, given, call, precise)
    )
    (expected,) = call(precise)
    found = torch.stack([side != expected for (side,) in sides]).any(0)
    assert float(found.float().mean()) < 0.01


@pytest.mark.parametrize(
    ("call", "honest"),
    [
        (lambda x: [x[0].sum(1) - x[1].sum(1) > 0], lambda x: in_order(x[0]) - in_order(x[1]) > 0),
        (
            lambda x: [torch.floor(1e4 * (x[0].mean(1) - x[1].mean(1)))],
            lambda x: torch.floor(1e4 * (in_order(x[0]) / 64 - in_order(x[1]) / 64)),
        ),
        (
            lambda x: [torch.exp(1e-4 * x[0]) - torch.exp(1e-4 * x[1]) > 0],
            lambda x: torch.exp2(1e-4 * LOG2_E * x[0]) - torch.exp2(1e-4 * LOG2_E * x[1]) > 0,
        ),
        (
            lambda x: [(1e-3 * x[0]).exp_().sub(1.0) > 1.005e-3],
            lambda x: torch.exp2(1e-3 * LOG2_E * x[0]) - 1.0 > 1.005e-3,
        ),
    ],
)
def test_alike_results_are_not_moved_alike(
    call: Call, honest: Callable[[list[torch.Tensor]], torch.Tensor]
) -> None:
    torch.manual_seed(1)
    given = [1 + 0.01 * torch.rand(1 << 14, 64) for _ in range(2)]
    wrong = honest(given) != call(high_precision.to_double(given))[0]
    assert bool(wrong.any())
    assert not bool((wrong & ~open_elements(call, *given)).any())


def in_order(x: torch.Tensor) -> torch.Tensor:
    return x.cumsum(1)[:, -1]


LOG2_E = 1.4426950408889634


def test_visible_scores_beside_an_added_mask_keep_their_order() -> None:
    def places(given: list[torch.Tensor]) -> list[torch.Tensor]:
        scores = given[0] @ given[1].T / 8 + given[2] * -1e30
        return [scores.topk(4, 1).indices]

    torch.manual_seed(1)
    masked = (torch.arange(256) >= 100).float().expand(64, 256).contiguous()
    found = open_elements(places, torch.randn(64, 64), torch.randn(256, 64), masked)
    assert float(found.float().mean()) < 0.05


def test_places_among_sorted_numbers_are_as_certain_as_each_value() -> None:
    def grades(given: list[torch.Tensor]) -> list[torch.Tensor]:
        return [torch.searchsorted(given[1], given[0] * given[2])]

    torch.manual_seed(1)
    limits = torch.linspace(-2, 2, 41)
    units = torch.cat([torch.full((10,), 1e9), torch.ones(6)])
    found = open_elements(grades, torch.randn(4096, 16), limits, units)
    assert float(found.float().mean()) < 1e-4

    def of_rows(given: list[torch.Tensor]) -> list[torch.Tensor]:
        return [torch.searchsorted(given[2][:, None] * given[1], given[0].T.contiguous())]

    found = open_elements(of_rows, torch.randn(4096, 16) * units, limits, units)
    assert float(found.float().mean()) < 1e-4
    close = limits[21:22, None] / 0.3
    assert bool(open_elements(grades, close, limits, torch.full((1,), 0.3)).all())
