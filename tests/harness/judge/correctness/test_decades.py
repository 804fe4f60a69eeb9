"""Elements that are small in one draw and large in another."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from harness.judge.correctness import decades, oracle, small_values, tolerance


def judged(
    candidate: torch.Tensor, wanted: torch.Tensor, own: torch.Tensor, terms: int = 256
) -> oracle.Finding:
    allowed = tolerance.derive(wanted, own, terms)
    ratio = allowed.norm / allowed.framework_error
    found = decades.find([wanted], [own], allowed.element, ratio)
    return oracle.compare(candidate, wanted, replace(allowed, decades=found), own)


def gated(seed: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Rows whose gates are anywhere from 1 to 1e-20; the same in single precision; the gates."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(1024, 128, generator=generator)
    logit = 15 * torch.randn(1024, 1, generator=generator)
    return (
        x.double() * logit.double().sigmoid(),
        x * logit.sigmoid(),
        logit.sigmoid().expand_as(x),
    )


def test_rows_behind_a_gate_have_to_be_computed() -> None:
    wanted, own, gate = gated(1)
    assert judged(own, wanted, own).signal is None
    found = judged(own.masked_fill(gate < 1e-7, 0), wanted, own)
    assert found.signal is not None
    assert "off by 100 %" in found.detail


def test_what_was_learned_of_one_draw_holds_for_others() -> None:
    wanted, own, _ = gated(1)
    allowed = tolerance.derive(wanted, own, 256)
    found = decades.find([wanted], [own], allowed.element, 10.0)
    assert found
    other, honest, gate = gated(2)
    assert decades.find_lost_decade(honest, other, found) is None
    assert decades.find_lost_decade(honest.masked_fill(gate < 1e-7, 0), other, found) is not None
    # places would not: of those that are zeros here few are small in each of three draws
    draws = [gated(seed)[0] for seed in (1, 2, 3)]
    groups = small_values.find(draws, [own], allowed.element)
    assert small_values.find_lost_group(honest.masked_fill(gate < 1e-7, 0), other, groups) is None


def test_their_rounding_is_not_asked_for() -> None:
    wanted, own, gate = gated(1)
    rough = torch.where(gate < 1e-6, own.bfloat16().float(), own)
    assert judged(rough, wanted, own).signal is None


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("power", [1, 2])
def test_elements_that_are_small_by_chance_are_no_group(dtype: torch.dtype, power: int) -> None:
    generator = torch.Generator().manual_seed(2)
    wanted = torch.randn(512, 512, dtype=torch.float64, generator=generator) ** power
    own = wanted.to(dtype)
    assert decades.find([wanted], [own], tolerance.derive(wanted, own, 64).element, 10.0) == ()


def test_nor_are_sums_that_cancel() -> None:
    """Half of the rows are differences of two large numbers: what is left has their error."""
    generator = torch.Generator().manual_seed(3)
    x = torch.randn(512, 128, 1024, generator=generator)[:, :64]
    x[::2] -= x[::2].flip(-1) * (1 + 1e-6)
    wanted, own = x.double().sum(-1), x.sum(-1)
    total = torch.zeros_like(own)
    for column in x.unbind(-1):
        total = total + column
    found = decades.find([wanted], [own], tolerance.derive(wanted, own, 1024).element, 10.0)
    assert found == ()
    assert judged(total, wanted, own, 1024).signal is None


def test_few_that_cancel_among_many_that_do_not_say_nothing() -> None:
    wanted, own, gate = gated(1)
    spoilt = own.clone()
    small = (gate < 1e-7).nonzero()
    chosen = small[:: len(small) // 200]
    spoilt[chosen[:, 0], chosen[:, 1]] += 1e-7
    assert judged(spoilt, wanted, own).signal is None


def test_what_the_framework_loses_is_not_asked_for() -> None:
    wanted, own, _ = gated(1)
    own = own + 1 - 1
    found = decades.find([wanted], [own], 1e-5, 10.0)
    assert all(each.size > 1e-7 for each in found)
