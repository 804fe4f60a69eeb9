"""Comparing in blocks and threads gives what one formula over everything gives."""

from __future__ import annotations

import math

import pytest
import torch

from harness.judge.correctness import distance, oracle, quick_verdicts, tolerance
from harness.wire import dtypes


@pytest.mark.parametrize("shape", [(1,), (1000,), (7, 96), (33, 1000), (5, 4, 300), (0, 3), (2, 1)])
@pytest.mark.parametrize(("block", "many"), [(64, 128), (1 << 17, 1 << 20)])
@pytest.mark.parametrize(
    "both",
    [
        (torch.float32, torch.float64),
        (torch.float16, torch.float16),
        (torch.float64, torch.float64),
    ],
)
def test_blocks_and_threads_change_nothing(
    shape: tuple[int, ...],
    block: int,
    many: int,
    both: tuple[torch.dtype, torch.dtype],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(distance, "BLOCK", block)
    monkeypatch.setattr(distance, "MANY", many)
    generator = torch.Generator().manual_seed(0)
    reference = torch.randn(shape, generator=generator, dtype=torch.float64).to(both[1])
    value = (
        reference.double() + 1e-2 * torch.randn(shape, generator=generator, dtype=torch.float64)
    ).to(both[0])
    found = distance.measure(value, reference, 0.5)
    if not reference.numel():
        assert (found.error, found.worst, found.rms) == (0.0, 0.0, 0.0)
        return
    wanted, off = reference.double(), value.double() - reference.double()
    near = {"rel": 2e-3 if torch.float16 in both else 1e-9}
    assert found.error == pytest.approx(float(off.norm() / wanted.norm()), **near)
    assert found.rms == pytest.approx(float(wanted.norm()) / math.sqrt(wanted.numel()), **near)
    assert found.worst == pytest.approx(float(off.abs().max()), **near)
    assert found.excess == pytest.approx(float((off.abs() - 0.5 * wanted.abs()).max()), abs=1e-3)
    rows = [
        t.reshape(-1, t.shape[-1] if t.dim() > 1 else t.numel()).norm(dim=1) for t in (off, wanted)
    ]
    expected = rows[0] / rows[1].clamp(min=0.5 * float(wanted.norm()) / math.sqrt(len(rows[1])))
    torch.testing.assert_close(found.rows.double(), expected, rtol=near["rel"], atol=1e-12)


def test_what_is_not_finite_shows_in_every_block(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distance, "BLOCK", 8)
    monkeypatch.setattr(distance, "MANY", 16)
    reference = torch.ones(50, 10, dtype=torch.float64)
    for place in ((0, 0), (25, 7), (49, 9)):
        value = torch.ones(50, 10)
        value[place] = math.nan
        assert not math.isfinite(distance.measure(value, reference).error)


@pytest.mark.parametrize(
    ("dtype", "scale"), [(torch.float32, 1e28), (torch.float32, 1e-30), (torch.float64, 1e250)]
)
def test_squares_that_overflow_or_vanish_hide_nothing(dtype: torch.dtype, scale: float) -> None:
    reference = (
        torch.randn(64, 1024, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
        .mul(scale)
        .to(dtype)
    )
    found = distance.measure(reference * (1 + 2**-10), reference)
    assert found.error == pytest.approx(2**-10, rel=0.01)
    assert found.rms == pytest.approx(scale, rel=0.05)
    assert found.worst == pytest.approx(2**-10 * float(reference.abs().max()), rel=0.01)
    zeros = torch.where(reference.abs() < scale / 2, 0, reference)
    assert distance.measure(zeros, reference).error > 0.1
    allowed = tolerance.derive(reference, reference, 64)
    assert not oracle.is_right(zeros, reference, allowed)
    assert not quick_verdicts.are_surely_right(
        zeros[None], reference[None], allowed, tolerance.TypicalSize()
    )
    assert oracle.is_right(reference.clone(), reference, allowed)


def test_an_infinity_in_a_timed_expectation_hides_nothing() -> None:
    expected = torch.tensor([[1.0, 2.0, torch.inf, 3.0]])
    allowed = tolerance.derive(torch.ones(1, 4), torch.ones(1, 4), 1)
    assert not quick_verdicts.are_surely_right(
        torch.zeros(1, 4), expected, allowed, tolerance.TypicalSize()
    )


@pytest.mark.parametrize("size", [1.0, 1e200, 1e-200])
def test_a_root_mean_square_is_the_same_in_blocks(
    size: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = torch.randn(
        2, 3000, dtype=torch.float64, generator=torch.Generator().manual_seed(0)
    )
    whole = [float((t / math.sqrt(3000)).norm()) * size for t in (one, one - other)]
    for block, many in ((64, 128), (1 << 17, 1 << 20)):
        monkeypatch.setattr(distance, "BLOCK", block)
        monkeypatch.setattr(distance, "MANY", many)
        assert distance.rms(one * size) == pytest.approx(whole[0], rel=1e-9)
        assert distance.rms_of(lambda a, b: a - b, one * size, other * size) == pytest.approx(
            whole[1], rel=1e-9
        )


def test_values_that_are_not_finite_are_seen_in_every_block(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(distance, "BLOCK", 64)
    values = torch.ones(200)
    assert distance.all_finite(values)
    assert distance.rms(torch.zeros(200)) == 0.0
    for strange in (math.inf, math.nan):
        values[130] = strange
        assert not distance.all_finite(values)
        assert distance.rms(values) == pytest.approx(strange, nan_ok=True)
        assert math.isnan(distance.rms_of(lambda a, b: a - b, values, values))


@pytest.mark.parametrize(
    "dtype",
    [
        torch.float32,
        torch.float16,
        torch.float8_e4m3fn,
        torch.float8_e4m3fnuz,
        torch.float8_e8m0fnu,
        torch.int64,
        torch.uint32,
        torch.uint64,
        torch.bool,
        torch.complex64,
    ],
)
def test_what_is_right_is_not_plainly_wrong(dtype: torch.dtype) -> None:
    drawn = 4 * torch.randn(64, 50, dtype=torch.complex128 if dtype.is_complex else torch.float64)
    positive = dtype.is_floating_point or dtype.is_signed or dtype.is_complex
    drawn = drawn if positive or dtype is torch.bool else 1e4 * drawn.abs()
    right = drawn > 0 if dtype is torch.bool else drawn.to(dtype)
    expected = drawn if dtypes.rounds(dtype) else right
    allowed = tolerance.derive(expected, right, 50)
    size = distance.rms(expected)
    assert not quick_verdicts.is_plainly_wrong(right, expected, allowed, size)
    if dtype.itemsize > 1 or not dtypes.rounds(dtype):
        assert quick_verdicts.is_plainly_wrong(right.roll(1, 0), expected, allowed, size)


def test_the_same_bytes_are_told_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distance, "DEVICE_BLOCK", 64)
    monkeypatch.setattr(distance, "_in_host_memory", lambda *tensors: False)
    one = torch.randn(7, 33)
    assert distance.same_bits(one, one.clone())
    assert distance.same_bits(torch.zeros(0), torch.zeros(0))
    for at in (0, 100, 230):
        other = one.clone()
        other.view(-1)[at] += 1
        assert not distance.same_bits(one, other)
    assert not distance.same_bits(torch.zeros(3), -torch.zeros(3))
