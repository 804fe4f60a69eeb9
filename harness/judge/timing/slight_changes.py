"""Which updates of state are too small for a comparison to prove them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ...wire import dtypes
from ..correctness import oracle, tolerance
from ..correctness.distance import all_finite, real, rms
from ..exchange.input_sets import LeftValue

if TYPE_CHECKING:
    import torch

HARDLY = 4.0  # times the tolerance: who computes a part of such an update passes
# of what changes, the largest part that may change little: numbers that go through zero do. And the
# most that is little, of the usual size: of numbers of 8 bits that are drawn anew, whose tolerance
# is as large, a seventh is as near to the old ones
FEW, LITTLE = 1 / 4, 1 / 4
# elements that hardly fade by one factor by chance, and a tolerance that says little
MANY, LARGE = 16, 1 / 2


def is_slight(before: torch.Tensor, left: LeftValue) -> bool:
    """Whether what calls have left is what was there before, within a few times its tolerance, as a
    whole or in too large a part of what they change, or what has faded by a factor alone. Integers
    have no tolerance."""
    if not dtypes.rounds(before.dtype) or left.allowance.rule != "rounding":
        return False
    limits = tolerance.widen(left.allowance, HARDLY)
    # what is nearest is off by less than its size in any case
    faded = _faded(before, left.expected) if limits.norm < LARGE else []
    if any(oracle.is_right(each, left.expected, limits) for each in (before, *faded)):
        return True
    return little_changed(before, left) > FEW


def _faded(before: torch.Tensor, expected: torch.Tensor) -> list[torch.Tensor]:
    """Return what was there before, times the factor that brings it nearest to what is expected: as
    a whole, by rows and by columns; nothing for few elements, which are near it in any case."""
    import torch

    old, exact = real(before).double(), real(expected).double()
    if not (old.numel() and all_finite(old) and all_finite(exact)):
        return []
    old = old / old.abs().amax().clamp(min=1e-300)  # squares shall not vanish
    axes, found = list(range(old.dim())), list[torch.Tensor]()
    parts = axes[before.dim() :]  # of complex numbers
    for line in (axes, *([axis, *parts] for axis in axes[: before.dim()][-2:])):
        if math.prod(old.shape[axis] for axis in line) >= MANY:
            squares = old.square().sum(line, keepdim=True).clamp(min=1e-300)
            nearest = (old * exact).sum(line, keepdim=True) / squares * old
            numbers = torch.view_as_complex(nearest) if before.is_complex() else nearest
            found.append(numbers.to(before.dtype))
    return found


def little_changed(before: torch.Tensor, left: LeftValue) -> float:
    """Return the part of the elements that calls change whose change is little: `FEW` of them may
    be off by as much, since what counts for many is the tolerance of the whole, and for a few, such
    as one line of a cache, that of a row. 0 where none changes. What the tensor's dtype does not
    show is no change: the other lines, or a mask."""
    old, exact = real(before), real(left.expected)
    shown = real(left.expected.to(before.dtype))
    finite = old.isfinite() & exact.isfinite() & shown.isfinite()
    changed = (old != shown) & finite
    count = int(changed.sum())
    if not count:
        return 0.0
    exact = exact.masked_fill(~finite, 0)
    size = rms(exact)
    whole = left.allowance.norm * math.sqrt(old.numel() / (FEW * count))
    scaled = (exact / size).double() if size else exact.double()  # squares shall not overflow
    rows = scaled.square().mean(-1, keepdim=True).sqrt() if exact.dim() else scaled.abs()
    limit = size * (left.allowance.row * rows.clamp(min=0.5)).clamp(max=min(whole, LITTLE))
    return int((((exact - old).abs() <= limit) & changed).sum()) / count
