"""What is expected where rounding to whole numbers decides: of the neighbours that are right the
one that a candidate gives.

Which elements have two right neighbours the reference says (`harness/workers/rounding.py`): it has
been run with what it rounds moved down and up, and is the same each time but there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from .distance import blocks

if TYPE_CHECKING:
    import torch


def settled(
    candidate: torch.Tensor, expected: torch.Tensor, turned: Sequence[torch.Tensor]
) -> torch.Tensor:
    """`expected`, with another of the right values where that is nearer to the candidate's. turned:
    what else there is, in the output's dtype. All of one shape; complex outputs stay as they
    are."""
    import torch

    found, flat = expected, expected
    for other in turned:
        if other.is_complex() or not other.numel():
            break
        places = _different(other, expected)
        if not places.numel():
            continue
        if found is expected:
            found = expected.clone(memory_format=torch.contiguous_format)
            flat = found.view(-1)
        own, new = (t.to(found.device).reshape(-1)[places] for t in (candidate, other))
        known = flat[places]
        if own.is_floating_point():
            nearer = (own.double() - new.double()).abs() < (own.double() - known.double()).abs()
        else:
            nearer = own == new
        flat[places] = torch.where(nearer, new.to(known.dtype), known)
    return found


def _different(other: torch.Tensor, expected: torch.Tensor) -> torch.Tensor:
    """The flat places where two tensors differ in the dtype of the former; NaN equals NaN."""
    import torch

    found, start = [], 0
    for new, wanted in blocks(other.to(expected.device), expected):
        one, two = new, wanted.to(new.dtype)
        # torch compares no eight bits, and no NaN with itself
        if one.is_floating_point():
            one, two = one.double(), two.double()
        places = ((one != two) & ~((one != one) & (two != two))).nonzero().reshape(-1)
        found.append(places + start)
        start += new.numel()
    return torch.cat(found)
