"""Tensors that stand in dicts, lists and tuples have gradients as others have."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from harness.wire.layouts import dense_layout, plan_layout
from harness.workers import call_form, high_precision, model_calls

FLAT = [torch.randn(4, 3), torch.randn(4, 3), torch.randint(0, 3, (4, 3)), 2.0]


def product(x: Any, y: Any, index: Any, factor: float) -> Any:
    return x * y * index * factor


def of_batch(batch: dict[str, Any], rest: tuple[Any, ...]) -> Any:
    return product(batch["x"], *rest)


NESTED = [{"x": FLAT[0]}, (FLAT[1], FLAT[2], FLAT[3])]


def test_gradients_of_tensors_inside_are_asked_for() -> None:
    assert list(model_calls.roots(of_batch, NESTED)) == [0]
    given = torch.randn(4, 3)
    flat = model_calls.forward(product, [0])([*FLAT, given])
    nested = model_calls.forward(of_batch, [0])([*NESTED, given])
    assert len(flat) == len(nested) == 3
    assert all(map(torch.equal, flat, nested))
    assert not NESTED[0]["x"].requires_grad


@pytest.mark.parametrize("inputs", [FLAT, NESTED])
def test_the_smallest_call_has_the_same_gradients(inputs: list[Any]) -> None:
    given, weight = torch.randn(4, 3), torch.randn(5)
    outputs = dense_layout(plan_layout([given, FLAT[0], FLAT[1], weight]))
    form = call_form.CallForm(
        plan_layout([*inputs, given]), call_form.output_forms(outputs), 1, [0]
    )
    found = form.nothing()([*inputs, given])
    assert [t.shape for t in found] == [(4, 3), (4, 3), (4, 3), (5,)]


def test_all_that_is_floating_is_doubled() -> None:
    value = [{"half": torch.ones(2).half(), "index": torch.ones(2).long()}, [torch.ones(2)], 3]
    found = high_precision.to_double(value)
    assert [t.dtype for t in (*found[0].values(), *found[1])] == [
        torch.float64,
        torch.int64,
        torch.float64,
    ]
    assert found[2] == 3
