"""The oracle on honest rounding and on typical mistakes."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from harness.judge.correctness import oracle, quick_verdicts, tolerance


def judge(
    candidate: torch.Tensor, expected: torch.Tensor, reduction: int = 64, bitwise: bool = False
) -> oracle.Finding:
    framework = expected.to(candidate.dtype)
    allowed = tolerance.derive(expected, framework, reduction)
    return oracle.compare(candidate, expected, allowed, framework, bitwise)


def rows(count: int = 64, width: int = 256) -> torch.Tensor:
    return torch.randn(
        count, width, dtype=torch.float64, generator=torch.Generator().manual_seed(1)
    )


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


def _shifted_rows(
    count: int, terms: torch.Tensor, dtype: torch.dtype
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """(plain sequential, framework's, exact) of x + its row's sum, for many small outputs of
    `count` rows each."""
    total = torch.zeros(len(terms))
    for column in terms.to(dtype).float().unbind(1):
        total = total + column
    exact = terms.double() + terms.double().sum(1, keepdim=True)
    shaped = [(terms + total[:, None]), terms + terms.sum(1, keepdim=True), exact]
    return tuple(t.view(-1, count, t.shape[1]) for t in shaped)  # type: ignore[return-value]


@pytest.mark.parametrize("count", [1, 2, 7])
def test_few_rows_whose_sums_nearly_cancel_are_right(count: int) -> None:
    terms = torch.randn(2000 * count, 96, generator=torch.Generator().manual_seed(3))
    for own, framework, exact in zip(*_shifted_rows(count, terms, torch.float32), strict=True):
        found = oracle.compare(own, exact, tolerance.derive(exact, framework, 96), framework)
        assert found.signal is None, found


@pytest.mark.parametrize("count", [1, 2, 7])
def test_and_lower_precision_inside_is_still_seen_there(count: int) -> None:
    terms = torch.randn(500 * count, 96, generator=torch.Generator().manual_seed(4))
    drawn = zip(*_shifted_rows(count, terms, torch.bfloat16), strict=True)
    seen = [
        oracle.compare(own, exact, tolerance.derive(exact, framework, 96), framework).signal
        for own, framework, exact in drawn
    ]
    assert sum(s is not None for s in seen) >= 0.99 * len(seen)


def test_a_timed_output_of_few_rows_is_judged_by_its_usual_size() -> None:
    """The allowance of timed calls comes from other draws, and one of few rows may be small by
    chance."""
    terms = torch.randn(3000, 96, generator=torch.Generator().manual_seed(5))
    drawn = list(zip(*_shifted_rows(1, terms, torch.float32), strict=True))
    usual = tolerance.typical_size([exact for _, _, exact in drawn])
    _, framework, exact = drawn[0]
    allowed = tolerance.derive(exact, framework, 96)
    for own, _, exact in drawn:
        assert (
            oracle.compare(
                own, exact.float(), tolerance.for_timed_call(allowed, exact.float(), usual)
            ).signal
            is None
        )
        assert (
            oracle.compare(
                own * 1.001, exact.float(), tolerance.for_timed_call(allowed, exact.float(), usual)
            ).signal
            is not None
        )


def test_small_draws_are_not_judged_by_the_size_of_others() -> None:
    """A loss on inputs of every magnitude is not small by chance: zero is wrong for each draw."""
    drawn = list(torch.logspace(-20, 6, 32, dtype=torch.float64).unbind())
    usual = tolerance.typical_size(drawn)
    allowed = tolerance.derive(drawn[0], drawn[0].float(), 1 << 16)
    for exact in drawn:
        limits = tolerance.for_timed_call(allowed, exact.float(), usual)
        assert oracle.compare(exact.float(), exact.float(), limits).signal is None
        assert oracle.compare(torch.zeros(()), exact.float(), limits).signal is not None
    stack = torch.stack(drawn).float()
    assert not quick_verdicts.are_surely_right(torch.zeros(len(drawn)), stack, allowed, usual)


def test_a_few_small_draws_are_not_small_by_chance() -> None:
    """A scale that is small in one call of ten: the others say nothing about these."""
    generator = torch.Generator().manual_seed(6)
    drawn = [torch.randn(8, 64, generator=generator, dtype=torch.float64) for _ in range(30)]
    drawn = [each / 1000 if number < 3 else each for number, each in enumerate(drawn)]
    usual = tolerance.typical_size(drawn)
    allowed = tolerance.derive(drawn[-1], drawn[-1].bfloat16(), 64)
    for exact in drawn:
        own = exact.bfloat16()
        limits = tolerance.for_timed_call(allowed, own, usual)
        assert oracle.compare(own, own, limits).signal is None
        assert oracle.compare(torch.zeros_like(own), own, limits).signal is not None
    stack = torch.stack(drawn).bfloat16()
    assert not quick_verdicts.are_surely_right(torch.zeros_like(stack), stack, allowed, usual)


@pytest.mark.parametrize("shape", [(64, 96), (3, 96), (7,), ()])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(
    "usual", [tolerance.TypicalSize(), tolerance.TypicalSize(1.5, (0.1, 0.1, 1.5))]
)
def test_a_stack_is_surely_right_only_where_each_output_is(
    shape: tuple[int, ...], dtype: torch.dtype, usual: tolerance.TypicalSize
) -> None:
    """Errors of every size, spread over an output or in one element: never a yes where `compare`
    says no to one of them."""
    generator = torch.Generator().manual_seed(8)
    exact = torch.randn(4, *shape, generator=generator, dtype=torch.float64)
    allowed = tolerance.derive(exact[0], exact[0].to(dtype), 96)
    expected, answers = exact.to(dtype), set()
    for exponent in range(-28, 2):
        for alone in (False, True):
            error = (
                torch.randn(exact.shape, generator=generator, dtype=torch.float64) * 2.0**exponent
            )
            if alone:
                error.view(-1)[1:] = 0
            own = (exact + error).to(dtype)
            each = (
                oracle.compare(o, e, tolerance.for_timed_call(allowed, e, usual))
                for o, e in zip(own, expected, strict=True)
            )
            sure = quick_verdicts.are_surely_right(own, expected, allowed, usual)
            assert not sure or all(finding.signal is None for finding in each)
            answers.add(sure)
    assert answers == {True, False}
    own = expected.clone()
    own.view(-1)[3] = float("nan")
    assert not quick_verdicts.are_surely_right(own, expected, allowed, usual)


@pytest.mark.parametrize("size", [1.0, 1e200])
def test_a_stack_that_was_looked_at_is_as_it_was(size: float) -> None:
    """Where squares overflow it is looked at again."""
    expected = size * torch.rand(3, 40, dtype=torch.float64)
    allowed, own = tolerance.derive(expected[0], expected[0], 40), expected.clone()
    assert quick_verdicts.are_surely_right(own, expected, allowed, tolerance.TypicalSize()) is (
        size == 1.0
    )
    assert torch.equal(own, expected)
    assert oracle.compare(own[0], expected[0], allowed).signal is None


def test_a_stack_of_exact_outputs_is_surely_right_only_where_it_is_equal() -> None:
    expected = torch.arange(24).reshape(2, 12)
    allowed = tolerance.derive(expected[0], expected[0], 1)
    assert quick_verdicts.are_surely_right(
        expected.clone(), expected, allowed, tolerance.TypicalSize()
    )
    assert not quick_verdicts.are_surely_right(
        expected + (expected == 5), expected, allowed, tolerance.TypicalSize()
    )


def test_stacked_integers_may_each_equal_reference_or_framework() -> None:
    expected = torch.arange(24).reshape(2, 12)
    framework = expected + (expected == 5)
    allowed = tolerance.derive(expected[0], framework[0], 1)
    assert quick_verdicts.are_surely_right(
        framework, expected, allowed, tolerance.TypicalSize(), framework
    )
    assert quick_verdicts.are_surely_right(
        expected.clone(), expected, allowed, tolerance.TypicalSize(), framework
    )
    assert not quick_verdicts.are_surely_right(
        framework + (expected == 7), expected, allowed, tolerance.TypicalSize(), framework
    )


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
        ("wrong.rows", lambda t: t.index_fill_(0, torch.tensor([3, 11, 12, 40]), 0)),
        ("wrong.tail", lambda t: t[-1].zero_()),
        ("wrong.strided", lambda t: t[1::4].zero_()),
        ("wrong.strided", lambda t: t[:, 3::8].neg_()),
        ("wrong.block", lambda t: t[16:32, 64:128].add_(1)),
        ("wrong.block", lambda t: t[:, 32:64].zero_()),
        ("wrong.boundary", lambda t: t[:, 0].add_(1)),
        ("wrong.boundary", lambda t: t.index_fill_(0, torch.tensor([0, 63]), 9)),
        ("wrong.uninitialized", lambda t: t.view(torch.uint8)[5].fill_(0x7F)),
        ("wrong.uninitialized", lambda t: t.view(torch.uint8).fill_(0x7F)),
    ],
)
def test_mistakes_are_named_and_placed(signal: str, spoil: object) -> None:
    candidate = rows().float()
    spoil(candidate)  # type: ignore[operator]
    found = judge(candidate, rows())
    assert signal in (found.signal, *found.also)
    # a checking set judges others, too: its values are not told
    assert "off by" in found.detail or "in place of" in found.detail
    assert "got" not in found.detail


def test_integers_must_be_equal_to_the_reference_or_to_the_framework() -> None:
    expected, framework = torch.tensor([1, 2, 3]), torch.tensor([1, 2, 4])
    allowed = tolerance.derive(expected, framework, 1)
    for value in ([1, 2, 3], [1, 2, 4]):
        assert oracle.compare(torch.tensor(value), expected, allowed, framework).signal is None
    assert oracle.compare(torch.tensor([1, 2, 5]), expected, allowed, framework).signal is not None


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


@pytest.mark.parametrize(
    ("words", "spoil"),
    [
        ("0.125 times the expected", lambda t: t.mul_(0.125)),
        ("negated", lambda t: t.neg_()),
        ("plus 3", lambda t: t.add_(3)),
        ("transposed", lambda t: t[:, :64].copy_(t[:, :64].T.clone())),
        ("all zero", lambda t: t.zero_()),
        ("every 4th from index 1 along axis 0 of length 64", lambda t: t[1::4].zero_()),
        (
            "all of rows 60..63, the last 4 along axis 0 of length 64",
            lambda t: t[-4:].add_(torch.rand(4, 64) + 1),
        ),
        (
            "50 % of rows 60..63, the last 4 along",
            lambda t: (t[60::2, ::2].zero_(), t[61::2, 1::2].zero_()),
        ),
        (
            "all of what rows 60..63 and columns 0, 2, 4, 6 and more have in common, the last 4",
            lambda t: t[-4:, ::2].zero_(),
        ),
        (
            "all of columns 8..15, 24..31, 40..47, 56..63, 8 of every 16 from index 8 along axis 1",
            lambda t: t.view(64, 4, 16)[..., 8:].neg_(),
        ),
        (
            "all of rows 3, 12..15, 40 along axis 0",
            lambda t: t.index_fill_(0, torch.tensor([3, 12, 13, 14, 15, 40]), 0),
        ),
        (
            "all of what rows 3, 17 and columns 5, 9 have in common",
            lambda t: t[3:18:14, 5:10:4].neg_(),
        ),
        (
            "in memory order elements 3996..4095 of 4096, the last 100",
            lambda t: t.view(-1)[-100:].zero_(),
        ),
        ("one block: 16..31 of axis 0, 8..15 of axis 1", lambda t: t[16:32, 8:16].add_(1)),
        ("the last 3 along axis 1", lambda t: t[:, -3:].zero_()),
        ("only index 0 and 63 along axis 0", lambda t: t.index_fill_(0, torch.tensor([0, 63]), 9)),
    ],
)
def test_what_the_errors_have_in_common_is_said(words: str, spoil: object) -> None:
    expected = rows(width=64)
    candidate = expected.float()
    spoil(candidate)  # type: ignore[operator]
    assert words in judge(candidate, expected).detail


def test_an_error_does_not_tell_the_expected_value() -> None:
    """Zero in place of a value is off by exactly that value."""
    expected, candidate = rows(), rows().float()
    expected[3, 5] = 73.25
    candidate[3, 5] = 0
    assert "worst: [3, 5] off by about 100" in judge(candidate, expected).detail


def test_a_long_axis_is_described_without_listing_it() -> None:
    expected = torch.arange(1.0, 100_001.0, dtype=torch.float64)
    tail, odd, cut = expected.float(), expected.float(), expected.float()
    tail[-64:] = 0
    odd[1::2] = 0
    cut.view(-1, 50)[:, 25:] = 0
    assert (
        "indices 99936..99999, the last 64 along axis 0 of length 100000"
        in judge(tail, expected).detail
    )
    assert "every second from index 1 along" in judge(odd, expected).detail
    assert "25 of every 50 from index 25 along" in judge(cut, expected).detail
    assert len(judge(odd, expected).detail) < 400


def test_values_are_told_with_what_is_allowed() -> None:
    """Only for inputs that judge nobody."""
    expected, candidate = rows(), rows().float()
    allowed = tolerance.derive(expected, candidate, 64)
    assert oracle.worst_values(candidate, expected, allowed) == ""
    candidate[5, 7] += 3
    candidate[6, 8] = float("nan")
    told = oracle.worst_values(candidate, expected, allowed)
    assert f"[6, 8] expected {float(expected[6, 8]):.6g}, got nan" in told
    candidate[6, 8] = expected[6, 8]
    told = oracle.worst_values(candidate, expected, allowed)
    assert told.startswith(f"[5, 7] expected {float(expected[5, 7]):.6g}, got ")
    assert "off by 3 (allowed " in told
    whole = torch.tensor([1, 2, 3])
    found = oracle.worst_values(
        torch.tensor([1, 2, 5]), whole, tolerance.derive(whole, whole, 1), whole
    )
    assert found == "[2] expected 3, got 5, off by 2 (allowed 0)"


def test_a_half_precision_result_that_was_never_written_is_named() -> None:
    candidate = rows().half()
    candidate[8:16].view(torch.uint8).fill_(0x7F)  # NaN in this dtype
    found = judge(candidate, rows())
    assert (found.signal, found.also) == (
        "wrong.non_finite",
        ("wrong.block", "wrong.uninitialized"),
    )


def ruled(
    candidate: torch.Tensor,
    expected: torch.Tensor,
    rule: tolerance.Rule,
    framework: torch.Tensor | None = None,
) -> str | None:
    own = expected.to(candidate.dtype) if framework is None else framework
    return oracle.compare(
        candidate, expected, tolerance.derive(expected, own, 2048, rule), own
    ).signal


def test_values_that_only_move_must_be_equal() -> None:
    expected = rows().float().double()
    nudged = expected.float()
    nudged[0, 0] = torch.nextafter(nudged[0, 0], torch.tensor(9.0))
    assert ruled(expected.float(), expected, "equal") is None
    assert ruled(nudged, expected, "equal") is not None
    # the framework itself rounds: the rule does not hold
    assert ruled(nudged, expected, "equal", framework=nudged) is None


def test_one_missing_term_of_an_exact_sum_shows_in_half_precision() -> None:
    expected = torch.full((64, 1), 1024.0, dtype=torch.float64)
    short = expected.half() - 1
    assert ruled(short, expected, "rounding") is None
    assert ruled(short, expected, "integers") is not None
    assert ruled(expected.half(), expected, "integers") is None


def test_complex_numbers_are_judged_as_pairs() -> None:
    expected = torch.complex(rows(), rows().flip(0))
    assert judge(expected.to(torch.complex64), expected).signal is None
    assert judge(expected.to(torch.complex64).conj().resolve_conj(), expected).signal is not None


def test_relief_forgives_what_is_invisible_at_the_tasks_own_scale() -> None:
    expected = rows() * 1e-3
    candidate = (expected + 1e-7).float()
    framework = expected.float()
    assert (
        oracle.compare(
            candidate, expected, tolerance.derive(expected, framework, 64), framework
        ).signal
        is not None
    )
    assert (
        oracle.compare(
            candidate, expected, tolerance.derive(expected, framework, 64, relief=1e3), framework
        ).signal
        is None
    )


def test_what_a_constant_would_pass_for_is_predictable() -> None:
    generator = torch.Generator().manual_seed(6)
    losses = [torch.rand(4096, 1000, generator=generator).add(7).mean().double() for _ in range(3)]
    coarse = tolerance.derive(losses[0], losses[0].bfloat16(), 4096)
    assert tolerance.are_predictable(losses, coarse)
    fine = tolerance.derive(losses[0], losses[0].float(), 64, steady=True)
    assert not tolerance.are_predictable([rows()[: 8 * n].sum(0) for n in (1, 2, 3)], fine)
    assert not tolerance.are_predictable([torch.arange(3)] * 3, coarse)


def test_a_row_of_elements_that_never_meet_is_no_sum() -> None:
    wanted = (
        torch.rand(1, 1 << 16, dtype=torch.float64, generator=torch.Generator().manual_seed(7)) + 1
    )
    coarse = (wanted * (1 + 2**-12)).float()
    assert (
        oracle.compare(
            coarse, wanted, tolerance.derive(wanted, wanted.float(), 256, pointwise=True)
        ).signal
        is not None
    )
    assert (
        oracle.compare(
            wanted.float() * (1 + 2**-23),
            wanted,
            tolerance.derive(wanted, wanted.float(), 256, pointwise=True),
        ).signal
        is None
    )


def _less_its_mean(seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """A function of one long row, and that less its mean."""
    generator = torch.Generator().manual_seed(seed)
    found = torch.lgamma(20 * torch.rand(1, 1 << 16, generator=generator, dtype=torch.float64) + 1)
    return found, found - found.mean()


def test_few_rows_allow_elements_no_more_than_many_do() -> None:
    """A sum may be off by more, and all of its row with it; a table of values may not."""
    (values, wanted), (_, other) = _less_its_mean(9), _less_its_mean(10)
    single = tolerance.single_growth(wanted, other)
    allowed = tolerance.derive(wanted, wanted.float(), 1 << 16, single=single)
    mean_is_off = wanted + 1e-4 * values.mean()
    assert oracle.compare(mean_is_off.float(), wanted, allowed).signal is None
    noise = torch.randn(wanted.shape, generator=torch.Generator().manual_seed(11))
    table = (wanted + 1e-4 * values.mean() * noise).float()
    assert oracle.compare(table, wanted, allowed).signal is not None
    assert oracle.compare(table, wanted, replace(allowed, apart=math.inf)).signal is None
    stacked = torch.stack([table, mean_is_off.float()])
    assert not quick_verdicts.are_surely_right(
        stacked, wanted.expand(2, 1, -1), allowed, tolerance.TypicalSize()
    )


def test_sizes_that_chance_decides_leave_few_rows_as_they_are() -> None:
    terms = torch.randn(2, 1, 4096, dtype=torch.float64) + torch.tensor([1.0, 5.0])[:, None, None]
    assert math.isinf(tolerance.single_growth(*terms))
    assert math.isinf(tolerance.single_growth(terms[0, 0], terms[0, 0]))
    assert math.isinf(tolerance.single_growth(rows(), rows()))


def test_a_mask_whose_bytes_are_255_is_no_mask() -> None:
    """torch takes any byte but 0 for true; a kernel that reads the bytes does not."""
    right = torch.tensor([True, False, True])
    mask = torch.tensor([255, 0, 255], dtype=torch.uint8).view(torch.bool)
    assert torch.equal(mask, right)
    assert judge(right, right).signal is None
    assert judge(mask, right).signal == "wrong.values"


def test_a_second_result_widens_the_limits_up_to_a_step() -> None:
    expected = torch.randn(64, 50, generator=torch.Generator().manual_seed(5)).bfloat16().float()
    plain = tolerance.derive(expected.double(), expected, 50)
    for off, wider in ((2.0**-9, True), (0.1, False)):
        second = expected.double() * (1 + off)
        found = tolerance.derive(expected.double(), expected, 50, second=second)
        assert (found.norm > 1e3 * plain.norm) is wider
        assert found.framework_error == 0.0


def test_double_precision_is_exact_only_in_whole_numbers() -> None:
    whole = torch.arange(60, dtype=torch.float64).view(6, 10)
    assert tolerance.derive(whole, whole, 10, "integers").rule == "integers"
    assert tolerance.derive(whole / 3, whole / 3, 10, "integers").rule == "rounding"


def _stepped(matrix: torch.Tensor, start: torch.Tensor, moves: float = 0.0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(1)

    def moved(tensor: torch.Tensor) -> torch.Tensor:
        up = torch.randint(0, 2, tensor.shape, generator=generator)
        return tensor * (1 + moves * (2.0 * up - 1))

    matrix, value = moved(matrix), start
    for _ in range(40):
        value = matrix @ (matrix.T @ moved(value))
        value = value / value.norm()
    return value


def test_errors_that_updates_carry_on_are_allowed() -> None:
    generator = torch.Generator().manual_seed(0)
    # two directions grow alike, so each step carries the errors of all steps before
    sides = [torch.linalg.qr(torch.randn(256, 256, generator=generator))[0] for _ in range(2)]
    sizes = torch.cat([torch.tensor([1.0, 0.9999]), torch.full((254,), 0.5)])
    matrix = (sides[0] * sizes) @ sides[1]
    start = torch.randn(256, generator=generator)
    exact = _stepped(matrix.double(), start.double())
    own = _stepped(matrix, start)
    other = _stepped(matrix.double(), start.double(), 2.0**-24)
    carried, unsure = tolerance.derive_carried(exact, own, other, 256)
    off = float((other - exact).norm() / exact.norm())
    assert carried.norm > 3 * tolerance.floor("float32", 256)
    assert off < carried.norm < 1e-3
    assert not unsure


def test_plain_sums_are_within_the_limit_where_roundings_move_nothing() -> None:
    """Honest steps of a power iteration were 5.8e-6 off."""
    exact = torch.randn(768, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    carried, unsure = tolerance.derive_carried(exact, exact.float(), exact, 768)
    assert 5.8e-6 < carried.norm < 2e-5
    assert not unsure


def test_what_updates_decide_otherwise_is_told() -> None:
    exact = torch.randn(256, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    other = exact.clone()
    other[7] += 1  # a count went to another place
    carried, unsure = tolerance.derive_carried(exact, exact.float(), other, 256)
    assert unsure
    assert carried.norm < 1e-3
    assert tolerance.derive_carried(exact, exact.bfloat16(), other, 256)[1]
    assert not tolerance.derive_carried(exact, exact.bfloat16(), exact * 1.01, 256)[1]
    counts = torch.arange(8)
    assert tolerance.derive_carried(counts, counts, counts + 1, 256)[0].norm == 0


@pytest.mark.parametrize(
    ("dtype", "factor"), [(torch.float32, 2.0), (torch.float64, 2.0), (torch.bfloat16, 1.0)]
)
def test_more_draws_widen_limits_within_bounds(dtype: torch.dtype, factor: float) -> None:
    own = tolerance.Allowance(1e-6, 1e-6, 1e-6, 1e-6, 0.0, apart=1e-6)

    def wider(*draws: float, size: float = 1.0) -> tolerance.Allowance:
        found = [tolerance.FrameworkAllowance(*[each] * 4) for each in draws]
        return tolerance.by_more_draws(own, found, dtype, size)

    assert wider(1e-7, 4e-7) == own
    assert wider(1e-6, 3e-6).norm == pytest.approx(factor * 3e-6)
    assert wider(3e-6, size=0.5).least == pytest.approx(factor * 1.5e-6)
    hopeless = wider(1.0)
    assert (hopeless.norm, hopeless.row, hopeless.least, hopeless.apart) == pytest.approx(
        (1.6e-5,) * 4
    )
    assert hopeless.element == own.element
    expected = torch.randn(64, 256, dtype=torch.float64)
    assert not oracle.is_right(torch.zeros(64, 256, dtype=dtype), expected, hopeless)


def test_a_draw_of_zeros_allows_nothing_elsewhere() -> None:
    zeros, off = torch.zeros(8, 8, dtype=torch.float64), torch.full((8, 8), 1e-9)
    found = tolerance.framework_allowance(tolerance.derive(zeros, off, 8), zeros)
    assert found.least == 0.0
    assert tolerance.finite_rms(torch.tensor([3.0, torch.inf, torch.nan, 4.0])) == 2.5


def test_only_what_is_near_its_limit_is_looked_at_again() -> None:
    expected = torch.randn(64, 256, dtype=torch.float64)
    limits = tolerance.Allowance(1e-6, 1e-6, 1e-6, 1e-6, 0.0)
    near = oracle.compare((expected * (1 + 4e-6)).float(), expected, limits)
    assert near.signal is not None
    assert oracle.is_near(near)
    assert not oracle.is_near(oracle.compare(expected.half().float(), expected, limits))
    lost = expected.float()
    lost[3, 5] = torch.inf
    assert not oracle.is_near(oracle.compare(lost, expected, limits))
