"""Quick forms of the oracle's verdict that take few operations and give no details: on a sample of
the elements, and on many calls at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...wire.dtypes import ROUNDOFF
from . import oracle, tolerance
from .distance import all_finite, dtype_name, numbers, real
from .tolerance import Allowance, TypicalSize

if TYPE_CHECKING:
    import torch

SAMPLED = 1 << 16  # elements that reveal most wrong outputs
# the most elements of stacked outputs that are compared together; larger ones one by one
STACKED, STACKED_ON_DEVICE = 1 << 18, 1 << 24


def is_plainly_wrong(
    candidate: torch.Tensor, expected: torch.Tensor, allowance: Allowance, size: float
) -> bool:
    """Return whether a sample of the elements shows that `oracle.compare` would find an error;
    False if undecided. size: the root mean square of the expected values."""
    import torch

    dtype = dtype_name(candidate)
    candidate, expected = real(candidate), real(expected)
    count = expected.numel()
    if not count or allowance.rule == "open":
        return False
    places = torch.randint(count, (min(count, SAMPLED),), device=expected.device)
    sample, reference = (
        torch.take(candidate, places.to(candidate.device)).to(expected.device),
        torch.take(expected, places),
    )
    if not sample.is_floating_point() or allowance.rule == "equal":
        return bool((sample != reference.to(sample.dtype)).any())
    if not all_finite(reference):
        return False
    slope, offset = tolerance.element_cap(dtype, allowance)
    return bool(
        oracle.elements_beyond(sample, reference, slope, offset * size, allowance.least).any()
    )


def are_surely_right(
    candidates: torch.Tensor,
    expected: torch.Tensor,
    allowance: Allowance,
    typical: TypicalSize,
    framework: torch.Tensor | None = None,
    calls: Sequence[int] = (),
) -> bool:
    """Return whether `oracle.compare` would find no error in one output of several timed calls,
    stacked, using a few operations for all of them. False if undecided. typical: see
    tolerance.for_timed_call. framework: for integers, values that are also right. calls: indices of
    the calls that count; all if empty.

    The largest difference bounds that of each row and element, since a row counts as at least half
    the typical row."""
    if allowance.rule == "open":
        return True
    if candidates.numel() > (STACKED if expected.device.type == "cpu" else STACKED_ON_DEVICE):
        return False
    if 0 < len(calls) < len(candidates):
        candidates, expected = candidates[list(calls)], expected[list(calls)]
        framework = None if framework is None else framework[list(calls)]
    values, reference = numbers(candidates.to(expected.device)), real(expected)
    if not values.is_floating_point() or allowance.rule == "equal":
        right = values == reference
        return bool((right if framework is None else right | (values == real(framework))).all())
    if allowance.rule != "rounding" or allowance.faint or allowance.decades or values.numel() == 0:
        return False
    reference = reference.double().reshape(len(reference), -1)
    difference = (
        values.reshape(len(values), -1) - reference
    )  # a new tensor, since the outputs are used again
    size, off = (t.square().mean(1).sqrt() for t in (reference, difference))
    # infinite values or overflowing squares would allow any error
    if not bool((size.isfinite() & off.isfinite()).all()):
        return False
    unit = ROUNDOFF[dtype_name(expected)]
    factor = size.new_tensor(
        [typical.relaxation(each) if typical.rms else 1.0 for each in size.tolist()]
    )
    cap = factor * min(allowance.row / 2, allowance.element)
    fits = (off <= (factor * min(allowance.norm, allowance.apart) + unit) * size) & (
        difference.abs_().amax(1) <= cap * size
    )
    return bool(fits.all())
