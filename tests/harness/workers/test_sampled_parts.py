"""Samples of the parts of an input, and of the terms that products add up."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F

from harness.workers import sampled_parts


def doubled(inputs: tuple[torch.Tensor, ...]) -> list[torch.Tensor]:
    return [t.double() if t.is_floating_point() else t for t in inputs]


def of_pieces(call: Any, *inputs: torch.Tensor) -> tuple[list[list[float]], list[list[float]]]:
    given = doubled(inputs)
    others = [torch.randn_like(t) if t.is_floating_point() else t for t in inputs]
    return sampled_parts.errors(call, given, call(given), sampled=True, draw=lambda: others)


def of_axes(call: Any, *inputs: torch.Tensor) -> list[list[float]]:
    given = doubled(inputs)
    return sampled_parts.axis_errors(call, given, call(given))


@pytest.mark.parametrize("way", ["split", "slices", "index"])
def test_a_part_that_hardly_shows_is_found_beside_one_that_does(way: str) -> None:
    rest = torch.arange(64, 512)

    def call(x: list[torch.Tensor]) -> list[torch.Tensor]:
        if way == "split":
            one, other = x[0].split([64, 448], -1)
        else:
            one, other = x[0][:, :64], x[0][:, rest] if way == "index" else x[0][:, 64:]
        return [one.square().mean() + 1e-3 * other.square().mean()]

    sampled, replaced = of_pieces(call, torch.randn(512, 512))
    errors = sorted(error for (error,) in sampled)  # two samples of each part
    assert 0 < errors[0] < 1e-4
    assert errors[-1] > 2e-4
    assert max(error for (error,) in replaced) > 1e-4


def test_the_inputs_are_left_as_they_were() -> None:
    given = [torch.randn(64, 64, dtype=torch.float64)]
    before = given[0].clone()

    def call(x: list[torch.Tensor]) -> list[torch.Tensor]:
        return [x[0][:, :32] @ x[0][:32]]

    sampled_parts.errors(call, given, call(given), sampled=True, draw=lambda: given)
    sampled_parts.axis_errors(call, given, call(given))
    assert torch.equal(given[0], before)


def test_a_whole_input_or_a_tiny_piece_is_no_part() -> None:
    assert of_pieces(lambda x: [x[0].view(-1)[:4090].sum()], torch.randn(64, 64)) == ([], [])
    assert of_pieces(lambda x: [x[0][0, :8].sum()], torch.randn(32, 32)) == ([], [])


def test_attention_over_similar_values_hardly_shows_half_of_its_keys() -> None:
    def attention(x: list[torch.Tensor]) -> list[torch.Tensor]:
        q, v = F.normalize(x[0], dim=-1), 1 + 0.1 * torch.tanh(x[0])
        return [torch.softmax(q @ q.T, -1) @ v]

    keys, terms = of_axes(attention, torch.randn(2048, 64))  # of a score there are 64 terms
    assert 0 < keys[0] < 5e-3
    assert terms[0] > 0


@pytest.mark.parametrize("spread", [0.0, 1.0])
def test_fused_attention_is_sampled_by_keys(spread: float) -> None:
    def call(x: list[torch.Tensor]) -> list[torch.Tensor]:
        q, k, v = x
        return [F.scaled_dot_product_attention(q, k, 1 + spread * v)]

    (keys,) = of_axes(call, *(torch.randn(1, 2, 256, 64) for _ in range(3)))[:1]
    assert (keys[0] > 0.05) == bool(spread)


@pytest.mark.parametrize("in_place", [False, True])
def test_terms_of_a_product_that_differ_show_a_sample(in_place: bool) -> None:
    def call(x: list[torch.Tensor]) -> list[torch.Tensor]:
        return [x[0].new_zeros(64, 32).addmm_(*x) if in_place else x[0] @ x[1]]

    ((error,),) = of_axes(call, torch.randn(64, 128), torch.randn(128, 32))
    assert error > 0.5


def test_short_sums_are_not_sampled() -> None:
    assert of_axes(lambda x: [x[0] @ x[1]], torch.randn(64, 16), torch.randn(16, 64)) == []
