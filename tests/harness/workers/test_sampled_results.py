"""The errors of a kernel that reads one of several neighbours."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from harness.workers import sampled_results

ZEROS = torch.zeros(4096, dtype=torch.float64)


def errors(call: Any, *inputs: torch.Tensor) -> list[list[float]]:
    return sampled_results.errors(call, list(inputs), call(list(inputs)))


def test_a_sum_of_few_large_values_shows_a_sample() -> None:
    given = ZEROS.clone()
    given[3], given[2050] = 1.0, 2.0
    # one of eight, the second of two, the first half
    found = errors(lambda x: [x[0].sum()], given)
    assert [error for (error,) in found] == pytest.approx([1.0, 1 / 3, 1 / 3])
    assert errors(lambda x: [x[0].mean()], ZEROS + 1.0) == [[0.0]] * 3


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_each_of_the_first_axes_and_the_last_is_sampled(axis: int) -> None:
    """A sample along another axis reads the same as all."""
    shape = [1, 1, 1]
    shape[axis] = 16
    given = torch.arange(16.0, dtype=torch.float64).view(shape).expand(16, 16, 16).contiguous()
    found = errors(lambda x: [x[0].mean()], given)
    assert [error > 0 for (error,) in found] == [axis == 2, axis == 2, axis == 0, axis == 1]


def test_each_of_several_large_inputs_is_sampled_alone() -> None:
    one = torch.arange(64.0, dtype=torch.float64)
    found = errors(lambda x: [x[0].sum() + 1e-9 * x[1].sum()], one, one.clone())
    assert [error > 1e-6 for (error,) in found] == [True] * 5 + [False] * 2
    assert 0 < found[-1][0] < 1e-9
    assert len(errors(lambda x: [x[0].sum() + x[1].sum()], one, one[:4])) == 5
    assert len(errors(lambda x: [x[0].sum()], one)) == 3


def test_what_the_reference_does_not_read_makes_no_error() -> None:
    given = torch.randn(64, 64, dtype=torch.float64)
    found = errors(lambda x: [x[0][:, 1::2].sum()], given)
    assert [bool(error) for (error,) in found] == [True, False, True]


@pytest.mark.parametrize("dtype", [torch.int8, torch.bool, torch.complex64])
def test_other_values_are_sampled_as_well(dtype: torch.dtype) -> None:
    given = (torch.arange(4096) % 8 == 3).to(dtype)
    found = errors(
        lambda x: [x[0].abs().double().mean() if dtype != torch.bool else x[0].sum()], given
    )
    assert found[0][0] > 0.5


def test_a_whole_number_counts_only_if_it_differs() -> None:
    given = torch.ones(64, dtype=torch.float64)
    count = torch.tensor(7)
    assert errors(lambda x: [x[0].mean(), count], given) == [[0.0, 0.0]] * 3


@pytest.mark.parametrize("error", [ValueError, ArithmeticError, KeyError, TypeError])
def test_a_reference_may_refuse_a_sample(error: type[Exception]) -> None:
    def call(x: list[torch.Tensor]) -> list[torch.Tensor]:
        if float(x[0][1]) != 1.0:
            raise error("not these")
        return [x[0].sum()]

    first_of_eight, second_of_two, _ = errors(call, torch.arange(64.0, dtype=torch.float64))
    assert first_of_eight == []
    assert second_of_two == [32 / 2016]


def replaced(call: Any, *inputs: torch.Tensor) -> list[list[float]]:
    given = [tensor.double() if tensor.is_floating_point() else tensor for tensor in inputs]
    others = [torch.rand_like(t) if t.is_floating_point() else t for t in inputs]
    return sampled_results.replaced_errors(call, given, call(given), lambda: others)


def test_inputs_of_another_draw_show_what_is_to_be_seen_of_them() -> None:
    weights, step = torch.randn(64, 64), torch.randn(64, 64)
    found = replaced(lambda x: [x[0] - 1e-3 * x[1], x[1] * 2], weights, step)
    assert found[0][0] > 0.5
    assert found[0][1] == 0.0  # no effect at all
    assert 1e-4 < found[1][0] < 1e-2
    assert found[1][1] > 0.5
    (alone,) = replaced(lambda x: [x[0] * 1e-3 + 1], step)
    assert 0 < alone[0] < 1e-2


def test_a_row_or_an_element_is_seen_as_well() -> None:
    table, row = torch.randn(512, 16), torch.randn(1, 64)

    def call(x: Any) -> list[torch.Tensor]:
        found = x[0].clone()
        found[7] = x[1][0, :16]
        return [found]

    given = [table.double(), row.double()]
    other = [table, torch.rand(1, 64)]
    _, one = sampled_results.replaced_errors(call, given, call(given), lambda: other)
    assert one[0] > 0.1  # by norm 6 %


def test_effects_that_are_rounding_are_none() -> None:
    given = torch.randn(64, 64), torch.randn(1, 64)
    found = replaced(lambda x: [((x[0] + x[1]) - (x[0] + x[1]).mean(0))], *given)
    assert found[1] == [0.0]


def test_places_and_failing_draws_are_left_out() -> None:
    values, places = torch.randn(64, 64), torch.arange(64)
    assert len(replaced(lambda x: [x[0][x[1]]], values, places)) == 1

    def fail() -> list[torch.Tensor]:
        raise MemoryError

    assert sampled_results.replaced_errors(lambda x: x, [values], [values], fail) == []
