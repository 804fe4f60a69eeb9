"""The oracle: compares a candidate's bytes with a high-precision reference within the tolerance of
an output, and says where and how they are wrong."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...wire import dtypes
from . import error_map, tolerance, wrong_rows
from .decades import Decade, find_lost_decade
from .distance import apart, blocks, dtype_name, measure, numbers, real, rms, same_bits
from .small_values import Faint, find_lost_group
from .tolerance import Allowance

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Finding:
    """The verdict on one output. signal: None if right. error, framework_error, limit: norm-wise
    and relative. share: the share of wrong elements. also: further signals, such as that the wrong
    elements were never written."""

    signal: str | None
    error: float
    framework_error: float
    limit: float
    detail: str = ""
    bitwise_equal: bool = False
    share: float = 0.0
    also: tuple[str, ...] = ()


def compare(
    candidate: torch.Tensor,
    expected: torch.Tensor,
    allowance: Allowance,
    framework: torch.Tensor | None = None,
    bitwise: bool = False,
) -> Finding:
    """Judge one output. Shape and dtype match already, since the judge laid out the bytes."""
    return _judge(candidate, expected, allowance, framework, bitwise, error_map.read)


def worst_values(
    candidate: torch.Tensor,
    expected: torch.Tensor,
    allowance: Allowance,
    framework: torch.Tensor | None = None,
) -> str:
    """Describe the worst elements of an output with their expected values, "" where `compare` finds
    nothing. Only for inputs that are not used for judging."""
    slope, offset = tolerance.element_cap(dtype_name(candidate), allowance)
    exactly = allowance.rule == "equal" or not dtypes.rounds(candidate.dtype)
    size = rms(expected)

    def limit(reference: float) -> float:
        return 0.0 if exactly else max(slope * abs(reference) + offset * size, allowance.least)

    def explain(values: torch.Tensor, reference: torch.Tensor, wrong: torch.Tensor) -> Explanation:
        return ["wrong.values"], error_map.values(values, reference, wrong, limit)

    return _judge(candidate, expected, allowance, framework, False, explain).detail


def first_wrong_rows(
    candidate: torch.Tensor,
    expected: torch.Tensor,
    allowance: Allowance,
    inputs: Sequence[torch.Tensor],
    framework: torch.Tensor | None = None,
) -> str:
    """Show the first wrong rows with the inputs that belong to them, "" where `compare` finds
    nothing. Only for inputs that are not used for judging."""

    def explain(values: torch.Tensor, reference: torch.Tensor, wrong: torch.Tensor) -> Explanation:
        return ["wrong.values"], wrong_rows.dump(values, reference, wrong, inputs)

    return _judge(candidate, expected, allowance, framework, False, explain).detail


def is_near(finding: Finding) -> bool:
    """Return whether a wrong output is so near to its limit as a whole that the limit may be too
    narrow by chance."""
    return 0 < finding.error <= tolerance.MOST_BY_DRAWS * finding.limit


def compare_by_more_draws(
    finding: Finding,
    candidate: torch.Tensor,
    expected: torch.Tensor,
    allowance: Allowance,
    framework: torch.Tensor | None,
    more: Callable[[], Sequence[tolerance.FrameworkAllowance]],
    typical: tolerance.TypicalSize | None = None,
) -> Finding:
    """Return the finding of `compare`, or where that says that roundings hardly exceed their
    allowance and an output is right by those of more draws as well, the finding by these. more:
    draws them. typical: of timed calls, see tolerance.for_timed_call."""
    if finding.signal is None or allowance.rule != "rounding" or not is_near(finding):
        return finding
    draws = more()
    if not draws:
        return finding
    size = tolerance.finite_rms(expected)
    wider = tolerance.by_more_draws(allowance, draws, candidate.dtype, size)
    if typical is not None:
        wider = tolerance.for_timed_call(wider, expected, typical)
    again = compare(candidate, expected, wider, framework)
    return again if again.signal is None else finding


def is_right(
    candidate: torch.Tensor,
    expected: torch.Tensor,
    allowance: Allowance,
    framework: torch.Tensor | None = None,
) -> bool:
    """Return whether `compare` finds nothing. Faster than `compare` where much is wrong, since it
    does not describe the errors."""
    finding = _judge(
        candidate, expected, allowance, framework, False, lambda *_: (("wrong.values",), "")
    )
    return finding.signal is None


# (signals, the first of which names the finding; the detail text)
Explanation = tuple[Sequence[str], str]
Explain = Callable[["torch.Tensor", "torch.Tensor", "torch.Tensor"], Explanation]


def _judge(
    candidate: torch.Tensor,
    expected: torch.Tensor,
    allowance: Allowance,
    framework: torch.Tensor | None,
    bitwise: bool,
    explain: Explain,
) -> Finding:
    import torch

    if allowance.rule == "open":
        return Finding(None, 0.0, 0.0, 0.0)
    candidate = candidate.to(expected.device)
    equal = framework is not None and same_bits(candidate, framework)
    if bitwise and framework is not None:
        count = 0 if equal else int((candidate != framework).sum())
        detail = (
            ""
            if equal
            else f"{count} of {candidate.numel()} elements differ from the framework's bits"
        )
        return Finding(
            None if equal else "wrong.not_bitwise",
            0.0,
            0.0,
            0.0,
            detail,
            equal,
            count / max(candidate.numel(), 1),
        )
    dtype = dtype_name(candidate)
    candidate, expected = numbers(candidate), real(expected)
    if not candidate.is_floating_point():
        wrong = candidate != expected.to(candidate.dtype)
        if framework is not None:
            wrong &= candidate != real(framework)
        return _compare_exactly(candidate, expected, wrong, equal, explain)
    slope, offset = tolerance.element_cap(dtype, allowance)
    distance = measure(candidate, expected, slope)
    if not math.isfinite(distance.error):
        finite = torch.isfinite(expected)
        misplaced = torch.isfinite(candidate) != finite
        misplaced |= ~(finite | (candidate == expected) | (candidate.isnan() & expected.isnan()))
        if bool(misplaced.any()):
            (signal, *also), detail = explain(candidate, expected, misplaced)
            also = [name for name in (signal, *also) if name != "wrong.values"]
            return Finding(
                "wrong.non_finite",
                math.inf,
                allowance.framework_error,
                allowance.norm,
                detail,
                share=_share(misplaced),
                also=tuple(also),
            )
        candidate, expected = candidate.masked_fill(~finite, 0), expected.masked_fill(~finite, 0)
        distance = measure(candidate, expected, slope)
    if allowance.rule == "equal":
        return _compare_exactly(
            candidate, expected, candidate != expected.to(candidate.dtype), equal, explain
        )
    row_wrong = distance.rows > allowance.row
    fits = distance.error <= allowance.norm and not bool(row_wrong.any())
    if fits and distance.error > allowance.apart:
        fits = apart(candidate, expected) <= allowance.apart
    right = Finding(None, distance.error, allowance.framework_error, allowance.norm, "", equal)
    if fits and (
        loss := find_lost_group(candidate, expected, allowance.faint)
        or find_lost_decade(candidate, expected, allowance.decades)
    ):
        return _drowned_finding(candidate, expected, loss, explain)
    if fits and (distance.excess <= offset * distance.rms or distance.worst <= allowance.least):
        return right
    wrong = elements_beyond(candidate, expected, slope, offset * distance.rms, allowance.least)
    if fits and not bool(wrong.any()):
        return right
    # no single element exceeds its limit: show the wrong rows, or the largest differences
    if not bool(wrong.any()):
        wrong = (
            row_wrong.reshape(*expected.shape[:-1], 1).expand(expected.shape)
            if expected.dim() > 1
            else wrong
        )
        wrong = (
            wrong
            if bool(wrong.any())
            else elements_beyond(candidate, expected, 0.0, 0.0, 0.5 * distance.worst)
        )
    (signal, *also), detail = explain(candidate, expected, wrong)
    if signal == "wrong.values" and distance.error < _COARSE.get(dtype, 0.0):
        signal = "wrong.precision"
    return Finding(
        signal,
        distance.error,
        allowance.framework_error,
        allowance.norm,
        detail,
        share=_share(wrong),
        also=tuple(also),
    )


def _drowned_finding(
    candidate: torch.Tensor,
    expected: torch.Tensor,
    loss: tuple[Faint | Decade, float, torch.Tensor],
    explain: Explain,
) -> Finding:
    import torch

    group, error, places = loss
    wrong = torch.zeros(expected.numel(), dtype=torch.bool, device=expected.device)
    wrong[places] = True
    wrong = wrong.reshape(expected.shape)
    (signal, *also), detail = explain(candidate, expected, wrong)
    detail = (
        f"elements that are small compared with the rest (at most {group.size:.0e} of it) are off "
        f"by {100 * error:.0f} %: {detail}"
    )
    return Finding(
        signal, error, group.framework, group.limit, detail, share=_share(wrong), also=tuple(also)
    )


# an error without a pattern that is below this comes from a lower internal precision
_COARSE = {
    "float32": 2.0**-7, "complex64": 2.0**-7, "float64": 2.0**-22, "complex128": 2.0**-22,
}  # fmt: skip


def _compare_exactly(
    candidate: torch.Tensor,
    expected: torch.Tensor,
    wrong: torch.Tensor,
    equal: bool,
    explain: Explain,
) -> Finding:
    if not bool(wrong.any()):
        return Finding(None, 0.0, 0.0, 0.0, "", equal)
    (signal, *also), detail = explain(candidate, expected, wrong)
    return Finding(signal, _share(wrong), 0.0, 0.0, detail, share=_share(wrong), also=tuple(also))


def _share(wrong: torch.Tensor) -> float:
    return float(wrong.sum()) / max(wrong.numel(), 1)


def elements_beyond(
    candidate: torch.Tensor, expected: torch.Tensor, slope: float, offset: float, least: float
) -> torch.Tensor:
    """Return the mask of elements that are off by more than slope |r| + offset, and by more than
    `least`."""
    import torch

    wrong = torch.empty(expected.shape, dtype=torch.bool, device=expected.device)
    for part, reference, mask in blocks(candidate, expected, wrong):
        limit = reference.abs().mul_(slope).add_(offset).clamp_(min=least)
        torch.gt((part.to(reference.dtype) - reference).abs_(), limit, out=mask)
    return wrong
