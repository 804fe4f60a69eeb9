"""Elements that drown beside the rest of an output."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from harness.judge.correctness import oracle, small_values, tolerance

# of 128 columns: the last 72 are below 1e-6
SCALE = torch.logspace(0, -12, 16, dtype=torch.float64).repeat_interleave(8)


def drawn(
    scale: torch.Tensor, dtype: torch.dtype = torch.float32
) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    generator = torch.Generator().manual_seed(1)
    wanted = [
        torch.randn(64, len(scale), dtype=torch.float64, generator=generator) * scale
        for _ in range(3)
    ]
    return wanted, [each.to(dtype) for each in wanted]


def finding(
    candidate: torch.Tensor, scale: torch.Tensor = SCALE, dtype: torch.dtype = torch.float32
) -> oracle.Finding:
    wanted, own = drawn(scale, dtype)
    allowed = tolerance.derive(wanted[0], own[0], 64)
    groups = small_values.find(wanted, own, allowed.element)
    allowed = replace(allowed, faint=groups)
    return oracle.compare(candidate, wanted[0], allowed, own[0])


def test_columns_that_drown_have_to_be_computed() -> None:
    own = drawn(SCALE)[1][0]
    assert finding(own).signal is None
    own[:, 96:] = 0
    found = finding(own)
    assert found.signal is not None
    assert "small compared with the rest" in found.detail
    assert "off by 100 %" in found.detail


@pytest.mark.parametrize("part", [slice(56, 64), slice(120, 128)])
def test_each_order_of_magnitude_counts_by_itself(part: slice) -> None:
    own = drawn(SCALE)[1][0]
    own[:, part] *= 1.4
    assert finding(own).signal is not None


def test_rounding_of_such_columns_is_not_asked_for() -> None:
    own = drawn(SCALE)[1][0]
    own[:, 64:] = own[:, 64:].bfloat16().float()
    assert finding(own).signal is None


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_elements_that_are_small_by_chance_are_no_such_group(dtype: torch.dtype) -> None:
    wanted, own = drawn(torch.ones(512, dtype=torch.float64), dtype)
    assert small_values.find(wanted, own, tolerance.derive(wanted[0], own[0], 64).element) == ()


def test_what_the_framework_loses_is_not_asked_for() -> None:
    wanted, own = drawn(SCALE)
    own = [each + 1 - 1 for each in own]
    groups = small_values.find(wanted, own, 1e-5)
    assert all(float(group.size) > 1e-7 for group in groups)


def test_what_may_be_flushed_to_zero_is_not_asked_for() -> None:
    scale = torch.cat(
        [torch.ones(64, dtype=torch.float64), torch.full((64,), 1e-38, dtype=torch.float64)]
    )
    wanted, own = drawn(scale)
    assert small_values.find(wanted, own, 1e-5) == ()


def test_a_large_group_is_looked_at_by_a_sample() -> None:
    scale = torch.cat(
        [torch.ones(64, dtype=torch.float64), torch.full((4096,), 1e-8, dtype=torch.float64)]
    )
    wanted, own = drawn(scale)
    (*_, group) = small_values.find(wanted, own, 1e-5)
    assert group.places.numel() == small_values.MOST_PLACES
    zeros = own[0].clone()
    zeros[:, 64 : 64 + 2048] = 0
    found = small_values.find_lost_group(zeros, wanted[0], [group])
    assert found is not None
    assert 0.6 < found[1] < 0.8
