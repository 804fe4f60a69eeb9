"""The errors of a kernel that reads one of several neighbours."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from harness.workers import sampled_results


def errors(call: Any, *inputs: torch.Tensor) -> list[float] | None:
    return sampled_results.errors(call, list(inputs), call(list(inputs)))


def test_a_sum_of_few_large_values_shows_a_sample() -> None:
    given = torch.zeros(4096, dtype=torch.float64)
    given[3] = 1.0
    assert errors(lambda x: [x[0].sum()], given) == [1.0]
    assert errors(lambda x: [x[0].mean()], torch.ones(4096, dtype=torch.float64)) == [0.0]


@pytest.mark.parametrize("dtype", [torch.int8, torch.bool, torch.complex64])
def test_other_values_are_sampled_as_well(dtype: torch.dtype) -> None:
    given = (torch.arange(4096) % 8 == 3).to(dtype)
    found = errors(
        lambda x: [x[0].abs().double().mean() if dtype != torch.bool else x[0].sum()], given
    )
    assert found is not None
    assert found[0] > 0.5


def test_a_whole_number_counts_only_if_it_differs() -> None:
    given = torch.ones(64, dtype=torch.float64)
    count = torch.tensor(7)
    assert errors(lambda x: [x[0].mean(), count], given) == [0.0, 0.0]


@pytest.mark.parametrize("error", [ValueError, ArithmeticError, KeyError, TypeError])
def test_a_reference_may_refuse_a_sample(error: type[Exception]) -> None:
    def call(x: list[torch.Tensor]) -> list[torch.Tensor]:
        if float(x[0][1]) != 1.0:
            raise error("not these")
        return [x[0].sum()]

    assert errors(call, torch.arange(64.0, dtype=torch.float64)) is None
