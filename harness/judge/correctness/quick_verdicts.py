"""Verdicts of the oracle's that a few operations reach, where nobody asks what is wrong: on a
sample of the elements, and on many calls at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from . import oracle, tolerance
from .distance import all_finite, dtype_name, numbers, real
from .tolerance import ROUNDOFF, Allowance, TypicalSize

if TYPE_CHECKING:
    import torch

SAMPLED = 1 << 16  # elements that tell most fakes
# elements of stacked outputs that are looked at together; one by one beyond
STACKED, STACKED_ON_DEVICE = 1 << 18, 1 << 24


def is_plainly_wrong(
    candidate: torch.Tensor, expected: torch.Tensor, allowance: Allowance, size: float
) -> bool:
    """Whether a sample of the elements shows that `oracle.compare` would find something; False
    where it does not. size: the root mean square of what is expected."""
    import torch

    candidate, expected = real(candidate), real(expected)
    count = expected.numel()
    # torch takes nothing from eight bits
    if not count or (candidate.is_floating_point() and candidate.element_size() < 2):
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
    slope, offset = tolerance.element_cap(dtype_name(candidate), allowance)
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
    """Whether `oracle.compare` finds nothing with any of one output of several timed calls,
    stacked; told in a few operations for all of them. False where that takes a closer look.
    typical: see tolerance.for_timed_call. framework: of integers, what else is right. calls: those
    that count, of as many as there are.

    The largest difference bounds that of each row and element: a row counts as at least half the
    typical one."""
    if candidates.numel() > (STACKED if expected.device.type == "cpu" else STACKED_ON_DEVICE):
        return False
    if 0 < len(calls) < len(candidates):
        candidates, expected = candidates[list(calls)], expected[list(calls)]
        framework = None if framework is None else framework[list(calls)]
    values, reference = numbers(candidates.to(expected.device)), real(expected)
    if not values.is_floating_point() or allowance.rule == "equal":
        right = values == reference
        return bool((right if framework is None else right | (values == framework)).all())
    if allowance.rule != "rounding" or allowance.faint or allowance.decades or values.numel() == 0:
        return False
    reference = reference.double().reshape(len(reference), -1)
    difference = (
        values.reshape(len(values), -1) - reference
    )  # a new tensor: outputs are looked at again
    size, off = (t.square().mean(1).sqrt() for t in (reference, difference))
    # infinite, or squares that overflow: any error would do
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
