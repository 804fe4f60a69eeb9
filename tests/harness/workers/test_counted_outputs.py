"""Which outputs count comparisons."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from harness.workers import counted_outputs

Call = Callable[[torch.Tensor], torch.Tensor]


@pytest.mark.parametrize(
    ("call", "counts"),
    [
        (lambda x: (x > 0).sum(-1), True),
        (lambda x: (x > x.mean()).to(torch.int32).cumsum(-1), True),
        (lambda x: torch.count_nonzero((x > 0) & (x < 1), dim=-1), True),
        (lambda x: torch.searchsorted(x.sort(-1).values, x).clamp(max=7), True),
        (lambda x: torch.stack([(x > 0).sum(-1), (x < 0).sum(-1)]).T.contiguous(), True),
        (lambda x: (x > 0).sum(-1) + 1, True),
        (lambda x: (x > 0).sum(-1).clamp_(max=3), True),
        (lambda x: x > 0, False),  # a truth value has no others between
        (lambda x: x.argmax(-1), False),
        (lambda x: torch.add((x > 0).long(), (x > 1).long(), alpha=10), False),
        (lambda x: (x > 0).sum(-1, dtype=torch.uint8), False),
        (lambda x: x.round().cummax(-1)[1], False),
        (lambda x: ((x > 0) * torch.tensor([1, 2, 4, 8])).sum(-1), False),
        (lambda x: (x > 0).sum(-1) - (x > 1).sum(-1), False),
        (lambda x: torch.arange(9)[(x > 0).sum(-1)], False),
        (lambda x: torch.cat([(x > 0).sum(-1), x.argmax(-1)]), False),
        (lambda x: torch.where(x > 0, 7, 9), False),
        (lambda x: (x > 0).sum(-1).bitwise_xor_(5), False),
        (lambda x: x.round().long().sum(-1), False),
    ],
)
def test_sums_of_truth_values_and_places_among_sorted_ones_count(call: Call, counts: bool) -> None:
    found = counted_outputs.find(lambda given: [given[0], call(given[0])], [torch.randn(6, 4)])
    assert found == ([1] if counts else [])
