"""Where a task rounds to whole numbers, and what else is right there."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from harness.wire.slack import Slack
from harness.workers import certainties, decision_runs, high_precision, operators, rounding

SLACK = Slack(17 * certainties.SINGLE, 0, 0, 1)
ALL = Slack(0.5, 0, 0, 1)
Call = Callable[[list[torch.Tensor]], list[torch.Tensor]]


def quantized(given: list[torch.Tensor]) -> list[torch.Tensor]:
    (x,) = given
    return [torch.round(x / (x.abs().amax(1, keepdim=True) / 127)).to(torch.int8)]


def on_a_grid(given: list[torch.Tensor]) -> list[torch.Tensor]:
    (x,) = given
    step = x.abs().amax(1, keepdim=True) / 127
    return [torch.round(x / step) * step]


def normed(given: list[torch.Tensor]) -> torch.Tensor:
    return torch.layer_norm(given[0], given[0].shape[-1:])


def refusing_moves(given: list[torch.Tensor]) -> torch.Tensor:
    if not torch.equal(given[0], given[0].float().double()):
        raise ValueError("numbers of single precision only")
    h = normed(given)
    return (h >= h.amax(1, keepdim=True)).sum(0)


def masked(given: list[torch.Tensor], fill: float = -1e30) -> torch.Tensor:
    return normed(given).masked_fill(torch.arange(512) % 4 != 0, fill)


def inputs(rows: int = 512) -> list[torch.Tensor]:
    return [torch.randn(rows, 512, generator=torch.Generator().manual_seed(1))]


def unit(call: Call, given: list[torch.Tensor]) -> float:
    return certainties.unit(call, given, call, high_precision.to_double(given))


def test_a_quotient_is_rounded_before_it_is_rounded() -> None:
    assert unit(quantized, inputs()) == certainties.SINGLE
    assert unit(quantized, high_precision.to_double(inputs())) == 2.0**-53
    assert unit(quantized, [inputs()[0].bfloat16()]) == certainties.SINGLE


def test_so_it_is_where_the_reference_names_a_dtype() -> None:
    def call(given: list[torch.Tensor]) -> list[torch.Tensor]:
        return quantized([given[0].float()])

    assert unit(call, [inputs()[0].bfloat16()]) == certainties.SINGLE


@pytest.mark.parametrize(
    "call",
    [
        lambda given: [torch.round(given[0])],
        lambda given: [torch.round(given[0] * 0.5)],
        lambda given: [torch.relu(given[0].float()).round_()],
        lambda given: [given[0].clone().argmax(1)],
    ],
)
def test_what_is_exact_before_is_decided_by_the_rule(call: Call) -> None:
    assert unit(call, inputs()) == 0.0


def test_an_operator_that_divides_is_taken_for_a_quotient() -> None:
    def call(given: list[torch.Tensor]) -> list[torch.Tensor]:
        return [torch.fake_quantize_per_tensor_affine(given[0], 0.1, 0, -128, 127)]

    assert unit(call, inputs()) == certainties.SINGLE
    low, high = rounding.compute_alternatives(call, inputs(), SLACK, [torch.float32])[:2]
    wrong = (low[0] != call(inputs())[0]) | (high[0] != call(inputs())[0])
    assert 0 < int(wrong.sum()) < 0.001 * wrong.numel()


def test_it_is_known_by_name() -> None:
    with operators.Recorder() as recorder:
        quantized(inputs())
    assert certainties.decides(recorder.counts(), discrete=False)
    assert not certainties.decides(
        ["aten.argmax.default", "aten.eq.Scalar", "call"], discrete=False
    )
    assert certainties.decides(["aten.argmax.default"], discrete=True)


@pytest.mark.parametrize("call", [quantized, on_a_grid])
def test_whoever_multiplies_by_the_reciprocal_gets_one_of_both(call: Call) -> None:
    (x,) = inputs(4096)
    most = x.abs().amax(1, keepdim=True)
    given = high_precision.to_double([x])
    wanted = call(given)[0]
    known = [
        wanted,
        *(side[0] for side in rounding.compute_alternatives(call, given, SLACK, [wanted.dtype])),
    ]
    if wanted.is_floating_point():
        known = [(each / (most.double() / 127)).round() for each in known]
    own = torch.round(x * (127 / most))
    assert bool((own != known[0]).any())
    assert bool(torch.stack([own == each for each in known]).any(0).all())


def test_few_have_two_neighbours_and_these_lie_side_by_side() -> None:
    given = high_precision.to_double(inputs())
    wanted = quantized(given)[0].int()
    low, high = (
        side[0].int()
        for side in rounding.compute_alternatives(quantized, given, SLACK, [torch.int8])[:2]
    )
    open_ones = low != high
    # of values anywhere, those within SLACK (|v| + rms) on either side of a tie
    value = given[0] / (given[0].abs().amax(1, keepdim=True) / 127)
    usual = float((2 * SLACK.of(1) * (value.abs() + value.square().mean().sqrt())).mean())
    assert 0.5 * usual < float(open_ones.double().mean()) < 2 * usual
    assert int((high - low).max()) == 1
    assert int((high - low).min()) == 0
    assert bool(((wanted == low) | (wanted == high)).all())


@pytest.mark.parametrize(
    "wrong",
    [
        torch.trunc,
        torch.floor,
        lambda v: torch.where(torch.arange(512)[:, None] == 7, v.round() + 1, v.round()),
    ],
)
def test_other_roundings_gain_nothing(wrong: Callable[[torch.Tensor], torch.Tensor]) -> None:
    (x,) = inputs()
    given = high_precision.to_double([x])
    known = [
        quantized(given)[0],
        *(s[0] for s in rounding.compute_alternatives(quantized, given, ALL, [torch.int8])),
    ]
    own = wrong(x / (x.abs().amax(1, keepdim=True) / 127)).to(torch.int8)
    bad = ~torch.stack([own == each for each in known]).any(0)
    # with all the slack that there can be
    assert int(bad.sum()) > 0.9 * int((own != known[0]).sum())


def test_arguments_that_are_no_numbers_move_nobody_else() -> None:
    given = high_precision.to_double(inputs())
    low, high = rounding.compute_alternatives(on_a_grid, given, SLACK, [torch.float64])[:2]
    given[0][0, 0], given[0][1, 0] = float("nan"), float("inf")
    spoilt = rounding.compute_alternatives(on_a_grid, given, SLACK, [torch.float64])[:2]
    for side, other in zip((low, high), spoilt, strict=True):
        same = side[0][2:] == other[0][2:]
        assert float(same.double().mean()) > 0.999


def test_decimals_have_steps_of_their_own() -> None:
    def call(given: list[torch.Tensor]) -> list[torch.Tensor]:
        return [torch.round(given[0] / 3, decimals=2)]

    given = high_precision.to_double(inputs())
    low, high = (
        side[0] for side in rounding.compute_alternatives(call, given, ALL, [torch.float64])[:2]
    )
    assert float((high - low).max()) == pytest.approx(0.01)
    # MOST on either side
    assert float((high != low).double().mean()) == pytest.approx(2 * decision_runs.MOST, rel=0.2)


@pytest.mark.parametrize(
    "call",
    [
        lambda given: [(torch.relu(torch.layer_norm(given[0], (512,))) > 0).sum(1)],
        lambda given: [(normed(given).relu().clamp(max=6) > 0).sum(1)],
        lambda given: [(normed(given).relu().relu() > 0).sum(1)],
        lambda given: [(torch.relu(normed(given) * (torch.arange(512) < 256)) > 0).sum(1)],
        lambda given: [
            (torch.maximum(normed(given).relu(), (normed(given) - 1).relu()) > 0).sum(1)
        ],
        lambda given: [((normed(given) * (normed(given) > 0)).relu() > 0).sum(1)],
        lambda given: [((given[0] * (given[0] > 0)).abs().cumsum(1) * 0.3 > 0).sum(1)],
        lambda given: [(torch.softmax(given[0] - 1e30 * (given[0] < 0), 1) > 0).sum(1)],
    ],
)
def test_what_is_zero_by_structure_stays_so(call: Call) -> None:
    precise = high_precision.to_double(inputs())
    (expected,) = call(precise)
    for (found,) in rounding.compute_alternatives(call, precise, SLACK, [torch.int64]):
        assert float((found != expected).double().mean()) < 0.05


@pytest.mark.parametrize(
    "call",
    [
        lambda given: [(normed(given) >= normed(given).amax(1, keepdim=True)).sum(0)],
        lambda given: [(normed(given) >= normed(given).topk(9)[0][:, -1:]).sum(1)],
        lambda given: [normed(given).clamp(-1, 1).abs() >= 1],
        lambda given: [(normed(given) - normed(given).amax(1, keepdim=True)).exp() >= 1],
        lambda given: [(normed(given) >= normed(given).median(1, keepdim=True)[0]).sum(1)],
        lambda given: [(normed(given) * 1.0 >= normed(given).amax(1, keepdim=True)).sum(0)],
        lambda given: [refusing_moves(given)],
    ],
)
def test_a_number_that_is_compared_with_itself_stays_equal(call: Call) -> None:
    precise = high_precision.to_double(inputs())
    (expected,) = call(precise)
    for (found,) in rounding.compute_alternatives(call, precise, SLACK, [expected.dtype]):
        assert float((found != expected).double().mean()) < 0.02


@pytest.mark.parametrize(
    "call",
    [
        lambda given: [masked(given).topk(16)[1]],
        lambda given: [(masked(given) > 1.0).sum(1)],
        lambda given: [masked(given, -1e9).argmax(1)],
        lambda given: [masked(given, torch.finfo(torch.float64).min).topk(16)[1]],
        lambda given: [masked(given, torch.finfo(torch.float64).min).argmax(1)],
        lambda given: [masked([given[0].float()]).topk(16)[1]],
        lambda given: [masked([given[0].float()], -1e9).topk(16)[1]],
        lambda given: [(masked([given[0].float()]) > 1.0).sum(1)],
        lambda given: [torch.softmax(20 * normed(given), 1).topk(8)[1]],
    ],
)
def test_fills_and_heavy_tails_leave_the_others_as_they_are(call: Call) -> None:
    precise = high_precision.to_double(inputs())
    (expected,) = call(precise)
    for (found,) in rounding.compute_alternatives(call, precise, SLACK, [expected.dtype]):
        assert float((found != expected).double().mean()) < 0.02


@pytest.mark.parametrize(
    "rectify",
    [
        torch.relu,
        lambda z: z.clamp(min=0),
        lambda z: z.relu().clamp(max=6),
        lambda z: torch.maximum(z, torch.zeros_like(z)),
        lambda z: z * (z > 0),
        lambda z: torch.where(z > 0, z, 0),
        lambda z: -(-z).clamp(max=0),
        lambda z: (-z).clamp(-6, 0).abs(),
    ],
)
def test_what_is_rectified_close_to_zero_may_be_above(rectify: Callable[..., torch.Tensor]) -> None:
    def call(given: list[torch.Tensor]) -> list[torch.Tensor]:
        (x,) = given
        return [rectify(x - x.mean(1, keepdim=True)) > 0]

    x = torch.tensor([[3.0 + 1e-9, 1.0, -2.0, -2.0, -1e-9]], dtype=torch.float64)
    found = [each for (each,) in rounding.compute_alternatives(call, [x], SLACK, [torch.bool])]
    assert {bool(each[0, 4]) for each in found} == {False, True}
    assert all(each[0, :4].tolist() == [True, True, False, False] for each in found)


@pytest.mark.parametrize(
    ("call", "width"),
    [
        (lambda given: [given[0] > given[0].mean(1, keepdim=True)], 2),
        (lambda given: [given[0] > given[0].mean(1, keepdim=True)], 512),
        (lambda given: [given[0] / given[0].abs().amax(1, keepdim=True) >= 1], 4),
        (lambda given: [torch.softmax(given[0], 1).sum(1) >= 1], 4),
    ],
)
def test_what_rounding_decides_may_fall_on_either_side(call: Call, width: int) -> None:
    precise = [torch.full((8, width), 0.3, dtype=torch.float64)]
    found = rounding.compute_alternatives(call, precise, SLACK, [torch.bool])
    assert {bool(each.all()) for (each,) in found} == {False, True}


def test_shapes_that_follow_from_places_stay() -> None:
    def call(given: list[torch.Tensor]) -> list[torch.Tensor]:
        shares = torch.softmax(given[0], 1)
        return [shares[shares >= shares.topk(4, 1).values[:, -1:]].view(-1, 4), shares.argmax(1)]

    given = inputs(16)[0][:, :64].double()
    given[3, :5] = 5.0 + 1e-9 * torch.arange(5, dtype=torch.float64)
    found = rounding.compute_alternatives(call, [given], SLACK, [torch.float64, torch.int64])
    assert {tuple(each.shape) for each, _ in found} == {(16, 4)}


def test_truth_values_and_complex_numbers_are_compared_as_well() -> None:
    def call(given: list[torch.Tensor]) -> list[torch.Tensor]:
        z, x = given
        h = normed([x])
        return [(z - z.mean(1, keepdim=True)).real > 0, h > (x > 0), (x > 0) > h, h > True]

    z = torch.full((8, 2), 0.3 + 0.1j, dtype=torch.complex128)
    found = rounding.compute_alternatives(call, [z, inputs(8)[0].double()], SLACK, [torch.bool] * 4)
    assert {bool(each[0].all()) for each in found} == {False, True}


def test_what_a_model_keeps_is_not_moved() -> None:
    kept = torch.ones(4, dtype=torch.float64)

    def call(given: list[torch.Tensor]) -> list[torch.Tensor]:
        kept.mul_(1.0)
        return [normed(given)[:, :4] * kept > 0]

    rounding.compute_alternatives(call, high_precision.to_double(inputs(8)), SLACK, [torch.bool])
    assert torch.equal(kept, torch.ones(4, dtype=torch.float64))


def test_shapes_may_follow_from_comparisons() -> None:
    def call(given: list[torch.Tensor]) -> list[torch.Tensor]:
        few = given[0][given[0].cumsum(1) > 1]
        return [(torch.relu(few) > 0).sum()]

    precise = high_precision.to_double([torch.full((8, 4), 0.25)])
    found = rounding.compute_alternatives(call, precise, SLACK, [torch.int64])
    assert len(found) == len(rounding.SIDES)
