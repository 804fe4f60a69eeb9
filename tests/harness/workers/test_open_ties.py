"""Outputs that hold places of an input's values, where equal values have no order."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from harness.workers import open_ties


@pytest.mark.parametrize(
    ("call", "found"),
    [
        (lambda x: list(torch.topk(x, 3)), [(1, 0, 1)]),
        (lambda x: list(torch.topk(x, 3, dim=0)), [(1, 0, 0)]),
        (lambda x: [torch.topk(x.float(), 3).indices.int()], [(0, 0, 1)]),
        (lambda x: [torch.sort(x, descending=True).indices[:, :4]], [(0, 0, 1)]),
        (lambda x: [torch.argsort(x, dim=0)], [(0, 0, 0)]),
        (lambda x: list(torch.median(x, dim=-1)), [(1, 0, 1)]),
        # the order of equal values is fixed, the values are not an input's, or nothing is chosen
        (lambda x: [torch.sort(x, stable=True).indices], []),
        (lambda x: [torch.topk(x.sin(), 3).indices], []),
        (lambda x: [(x > 0).long()], []),
    ],
)
def test_places_in_an_input_are_found(call: Any, found: list[tuple[int, int, int]]) -> None:
    x = torch.randn(8, 16, generator=torch.Generator().manual_seed(1)).bfloat16()
    outputs = call(x)
    assert open_ties.find(lambda inputs: call(*inputs), [x], outputs) == found
