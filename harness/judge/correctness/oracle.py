"""Right or wrong: a candidate's bytes against a high-precision reference.

The error is norm-wise, relative to the reference, per tensor and per row; it may be a small
multiple of the framework's own rounding error in the same dtype, or a floor for honest arithmetic:
    floor = 2 u + v sqrt(K),    limit = max(k * error(framework), floor),
u the unit roundoff of the output's dtype, v that of the accumulator (float32 at least), K the
reduction length, k 4 (float32, float64), 3 (16 bit) or 2 (8 bit). A plain sequential sum of K terms
of one sign is off by about v sqrt(K / 3) (each partial sum rounds once, independently), so the
floor holds 1.7 times that; and with few rows more, since their norm may be small by chance while
rounding errors are those of the terms (see few_rows). No single element may be off by more than 8
floor (|r| + rms(r)), or k times the framework's own worst.

Where arithmetic leaves no choice, it must be exact: integers and booleans are equal to the
reference's or, where rounding decides (an argmax), the framework's; results of operators that only
move or compare values are equal; and on small integers whose results the framework represents
exactly an element may be off by its own rounding alone.
"""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from . import error_map, wrong_rows
from .decades import Decade, lost_anywhere
from .distance import all_finite, apart, blocks, measure, rms, rms_of, same_bits
from .small_values import Faint, lost

if TYPE_CHECKING:
    import torch

ROW_FACTOR = 8.0
CAP_FACTOR = 8.0
# by how much chance may make a draw smaller than usual: of one normal value some 1 in 1,000 is; and
# times what a quarter of the draws are below, the most that is usual
MOST_LOOSENED, ALIKE = 1e3, 64.0
# of n draws of one normal value some 1.6 n / f are below twice an f-th of the usual size: times n
# over those that are, what a draw beside which there are others may be smaller by chance
NOT_ALONE = 6.0
# where few rows are allowed so many times the floor, an error that neighbours do not share is
# measured by itself; the relative difference of two draws' sizes that are not so by chance
MOST_APART, ALIKE_SIZES = 4.0, 0.02
SAMPLED = 1 << 16  # elements that tell most fakes
# elements of stacked outputs that are looked at together; one by one beyond
STACKED, STACKED_ON_DEVICE = 1 << 18, 1 << 24
ROUNDOFF = {  # unit roundoff: half the distance from 1 to the next number
    "float64": 2.0**-53, "float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8,
    "float8_e4m3fn": 2.0**-4, "float8_e5m2": 2.0**-3, "complex64": 2.0**-24, "complex128": 2.0**-53,
}  # fmt: skip
Rule = Literal["rounding", "integers", "equal"]


@dataclass(frozen=True)
class Finding:
    """The verdict on one output. signal: None if right. error, framework_error, limit: norm-wise
    and relative. share: of the elements, how many are wrong. also: further signals, such as that
    the wrong elements were never written."""

    signal: str | None
    error: float
    framework_error: float
    limit: float
    detail: str = ""
    bitwise_equal: bool = False
    share: float = 0.0
    also: tuple[str, ...] = ()


@dataclass(frozen=True)
class Allowance:
    """What an output may be off by: derived once from the framework's own error.

    norm, row: relative, of the whole and of a row. element: times (|r| + rms(r)), of one element;
    least: absolute, what one element may be off by in any case. rule: "integers" allows an element
    its own rounding, "equal" nothing. faint: elements that none of these limits would miss, see
    there. apart: as norm, of what neighbours along a row do not share. decades: as faint, wherever
    such elements lie in a draw.
    """

    norm: float
    row: float
    element: float
    least: float
    framework_error: float
    rule: Rule = "rounding"
    faint: tuple[Faint, ...] = ()
    apart: float = math.inf
    decades: tuple[Decade, ...] = ()


def floor(dtype: str, reduction: int, growth: float = 1.0) -> float:
    """2 u + growth v sqrt(K). growth: above 1 where rounding errors of a sum repeat or meet larger
    terms than the result shows."""
    return 2 * ROUNDOFF[dtype] + growth * min(ROUNDOFF[dtype], ROUNDOFF["float32"]) * math.sqrt(
        max(reduction, 1)
    )


def few_rows(shape: Sequence[int]) -> float:
    """The least growth for an output of this shape, unless it is steady: 16 / sqrt(rows), where it
    is above 1.

    Simulated: of 80,000 plain float32 sums of 96 normal terms, spread along one row, one was off by
    8.2e-6 of its norm (14 times v sqrt(K)), and 6 % by more than 2 u + v sqrt(K); of 7 rows 8.2e-7;
    of 64 rows 3.2e-7, half of it."""
    count = math.prod(shape)
    rows = count // max(1, shape[-1]) if len(shape) > 1 else count
    return max(1.0, 16.0 / math.sqrt(max(rows, 1)))


def are_steady(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two draws of an output of few rows resemble each other: its terms do not cancel, so
    its norm is not small by chance (a loss, a mean of positive values). For others it does not
    matter."""
    one, other = real(one), real(other)
    return rms_of(lambda a, b: a - b, one, other) <= 0.1 * rms_of(lambda a, b: a + b, one, other)


def single_growth(one: torch.Tensor, other: torch.Tensor) -> float:
    """What an output allows errors that neighbours do not share: as many rows do, where it has few
    and each has the same size in two draws. Then no size is small by chance, and what is large
    beside it comes from sums over a row, which all of it shares. Infinite for others."""
    one, other = real(one), real(other)
    if few_rows(one.shape) <= MOST_APART or one.dim() < 2 or not one.is_floating_point():
        return math.inf
    sizes = [t.reshape(-1, t.shape[-1]).double().square().mean(1).sqrt() for t in (one, other)]
    alike = (sizes[0] - sizes[1]).abs() <= ALIKE_SIZES * sizes[0]
    return 1.0 if bool(alike.all()) else math.inf


def are_predictable(draws: Sequence[torch.Tensor], allowed: Allowance) -> bool:
    """Whether draws of an output differ by no more than it may be off by: a constant would then
    pass for it."""
    if not draws[0].is_floating_point() or not draws[0].numel():
        return False
    spreads = [
        rms_of(lambda x, y: x - y, a, b) / math.sqrt(2) for a, b in itertools.combinations(draws, 2)
    ]
    return max(spreads) <= allowed.norm * min(map(rms, draws))


def framework_factor(dtype: str) -> float:
    """k: how many times the framework's own error a candidate may be off by."""
    return (
        4.0
        if ROUNDOFF[dtype] <= ROUNDOFF["float32"]
        else 3.0
        if ROUNDOFF[dtype] <= ROUNDOFF["bfloat16"]
        else 2.0
    )


def allowance(
    expected: torch.Tensor,
    framework: torch.Tensor,
    reduction: int,
    rule: Rule = "rounding",
    growth: float = 1.0,
    relief: float = 1.0,
    *,
    steady: bool = False,
    pointwise: bool = False,
    single: float = math.inf,
    times: float = math.inf,
) -> Allowance:
    """Measure the framework's error for an output and derive what a candidate may be off by.

    rule: asked for; it holds only where the framework itself is exact. growth: see floor(). relief:
    multiplies the floor, where the inputs were scaled down and what matters is the error at the
    task's own scale. steady: its size is not small by chance, see there. pointwise: each element
    stands for itself, so that what is few are elements and not rows. single: the growth, where it
    is less, that holds for errors which neighbours do not share. times: at
    most so many times the framework's error, where an output has so many elements alike that it
    says what others make.
    """
    expected, framework = real(expected), real(framework)
    if not framework.is_floating_point():
        return Allowance(0.0, 0.0, 0.0, 0.0, 0.0)
    import torch

    dtype, own_growth = _dtype(framework), max(growth, single)
    growth = max(
        growth, 1.0 if steady else few_rows((expected.numel(), 1) if pointwise else expected.shape)
    )
    base = floor(dtype, reduction, growth) * relief
    factor = min(times, framework_factor(dtype))
    if not (all_finite(expected) and all_finite(framework)):
        finite = torch.isfinite(expected) & torch.isfinite(framework)
        expected, framework = expected.masked_fill(~finite, 0), framework.masked_fill(~finite, 0)
    found = measure(framework, expected)
    own_rows = float(found.rows.max()) if found.rows.numel() else 0.0
    return Allowance(
        max(factor * found.error, base),
        ROW_FACTOR * max(own_rows, base),
        CAP_FACTOR * base,
        factor * found.worst,
        found.error,
        rule if found.worst == 0.0 else "rounding",
        apart=max(factor * apart(framework, expected), floor(dtype, reduction, own_growth) * relief)
        if own_growth < growth
        else math.inf,
    )


@dataclass(frozen=True)
class Usual:
    """The root mean square over many draws of one output, and that of each, in order; 0 where each
    draw tells as much by itself."""

    rms: float = 0.0
    sizes: tuple[float, ...] = ()

    def loosened(self, size: float) -> float:
        """By how much a draw of this size may be smaller than usual by chance. One of all draws may
        be small; where others are no larger it is the task that draws such, and zeros would pass
        for them."""
        factor = min(MOST_LOOSENED, max(1.0, self.rms / max(size, 1e-300)))
        below = bisect.bisect_right(self.sizes, 2 * size)
        if factor == 1.0 or below < 2:
            return factor
        return min(factor, max(1.0, NOT_ALONE * len(self.sizes) / below))


def of_timed_call(allowed: Allowance, expected: torch.Tensor, usual: Usual) -> Allowance:
    """What holds for an expectation that was rounded once more, and for whose inputs no allowance
    was derived: one unit roundoff on top, and relative to the usual size where few rows are small
    by chance (see usual_rms)."""
    unit = ROUNDOFF.get(_dtype(expected), 0.0)
    factor = usual.loosened(rms(expected)) if usual.rms else 1.0
    return replace(
        allowed,
        norm=allowed.norm * factor + unit,
        row=allowed.row * factor + 2 * unit,
        element=allowed.element * factor,
        apart=allowed.apart * factor + unit,
    )


def widened(a: Allowance, factor: float = 2.0) -> Allowance:
    """So many times as much in everything, and nothing is asked of faint elements."""
    return replace(
        a,
        norm=factor * a.norm,
        row=factor * a.row,
        element=factor * a.element,
        least=factor * a.least,
        faint=(),
        apart=factor * a.apart,
        decades=(),
    )


def usual_rms(drawn: Sequence[torch.Tensor]) -> Usual:
    """What is usual for one output, over many draws. Where draws are of different sizes by
    themselves and not by chance, the largest say nothing about the others: then what a small draw
    shows, generously (a quarter of the draws of one normal value are below a third of the usual
    size)."""
    if few_rows(drawn[0].shape) == 1.0:
        return Usual()
    sizes = sorted(filter(None, map(rms, drawn))) or [0.0]
    found = min(math.hypot(*sizes) / math.sqrt(len(drawn)), ALIKE * sizes[len(sizes) // 4])
    return Usual(found, tuple(sizes)) if math.isfinite(found) else Usual()


def compare(
    candidate: torch.Tensor,
    expected: torch.Tensor,
    allowed: Allowance,
    framework: torch.Tensor | None = None,
    bitwise: bool = False,
) -> Finding:
    """Judge one output. Shapes and dtypes were fixed before: the bytes were laid out by the
    judge."""
    return _judge(candidate, expected, allowed, framework, bitwise, error_map.read)


def values(
    candidate: torch.Tensor,
    expected: torch.Tensor,
    allowed: Allowance,
    framework: torch.Tensor | None = None,
) -> str:
    """The worst elements of an output with what is expected of them, "" where `compare` finds
    nothing. Only for inputs that judge nobody."""
    slope, offset = _cap(_dtype(candidate), allowed)
    exactly = allowed.rule == "equal" or not candidate.is_floating_point()
    size = rms(expected)

    def limit(wanted: float) -> float:
        return 0.0 if exactly else max(slope * abs(wanted) + offset * size, allowed.least)

    def told(own: torch.Tensor, wanted: torch.Tensor, wrong: torch.Tensor) -> tuple[list[str], str]:
        return ["wrong.values"], error_map.values(own, wanted, wrong, limit)

    return _judge(candidate, expected, allowed, framework, False, told).detail


def first_wrong_rows(
    candidate: torch.Tensor,
    expected: torch.Tensor,
    allowed: Allowance,
    inputs: Sequence[torch.Tensor],
    framework: torch.Tensor | None = None,
) -> str:
    """The first wrong rows with the inputs that belong to them, "" where `compare` finds nothing.
    Only for inputs that judge nobody."""

    def told(own: torch.Tensor, wanted: torch.Tensor, wrong: torch.Tensor) -> tuple[list[str], str]:
        return ["wrong.values"], wrong_rows.dump(own, wanted, wrong, inputs)

    return _judge(candidate, expected, allowed, framework, False, told).detail


def right(
    candidate: torch.Tensor,
    expected: torch.Tensor,
    allowed: Allowance,
    framework: torch.Tensor | None = None,
) -> bool:
    """Whether `compare` finds nothing: quicker where much is wrong and nobody asks what."""
    found = _judge(
        candidate, expected, allowed, framework, False, lambda *_: (("wrong.values",), "")
    )
    return found.signal is None


def plainly_wrong(
    candidate: torch.Tensor, expected: torch.Tensor, allowed: Allowance, size: float
) -> bool:
    """Whether a sample of the elements shows that `compare` would find something; False where it
    does not. size: the root mean square of what is expected."""
    import torch

    candidate, expected = real(candidate), real(expected)
    count = expected.numel()
    # torch takes nothing from eight bits
    if not count or (candidate.is_floating_point() and candidate.element_size() < 2):
        return False
    places = torch.randint(count, (min(count, SAMPLED),), device=expected.device)
    own, wanted = (
        torch.take(candidate, places.to(candidate.device)).to(expected.device),
        torch.take(expected, places),
    )
    if not own.is_floating_point() or allowed.rule == "equal":
        return bool((own != wanted.to(own.dtype)).any())
    if not all_finite(wanted):
        return False
    slope, offset = _cap(_dtype(candidate), allowed)
    return bool(_beyond(own, wanted, slope, offset * size, allowed.least).any())


def surely_right(
    candidates: torch.Tensor,
    expected: torch.Tensor,
    allowed: Allowance,
    usual: Usual,
    framework: torch.Tensor | None = None,
    calls: Sequence[int] = (),
) -> bool:
    """Whether `compare` finds nothing with any of one output of several timed calls, stacked; told
    in a few operations for all of them. False where that takes a closer look. usual: see
    of_timed_call. framework: of integers, what else is right. calls: those that count, of as many
    as there are.

    The largest difference bounds that of each row and element: a row counts as at least half the
    typical one."""
    if candidates.numel() > (STACKED if expected.device.type == "cpu" else STACKED_ON_DEVICE):
        return False
    if 0 < len(calls) < len(candidates):
        candidates, expected = candidates[list(calls)], expected[list(calls)]
        framework = None if framework is None else framework[list(calls)]
    own, wanted = numbers(candidates.to(expected.device)), real(expected)
    if not own.is_floating_point() or allowed.rule == "equal":
        right = own == wanted
        return bool((right if framework is None else right | (own == framework)).all())
    if allowed.rule != "rounding" or allowed.faint or allowed.decades or own.numel() == 0:
        return False
    wanted = wanted.double().reshape(len(wanted), -1)
    difference = own.reshape(len(own), -1) - wanted  # a new tensor: outputs are looked at again
    size, off = (t.square().mean(1).sqrt() for t in (wanted, difference))
    # infinite, or squares that overflow: any error would do
    if not bool((size.isfinite() & off.isfinite()).all()):
        return False
    unit = ROUNDOFF[_dtype(expected)]
    factor = size.new_tensor([usual.loosened(each) if usual.rms else 1.0 for each in size.tolist()])
    cap = factor * min(allowed.row / 2, allowed.element)
    fits = (off <= (factor * min(allowed.norm, allowed.apart) + unit) * size) & (
        difference.abs_().amax(1) <= cap * size
    )
    return bool(fits.all())


Explain = Callable[["torch.Tensor", "torch.Tensor", "torch.Tensor"], tuple[Sequence[str], str]]


def _judge(
    candidate: torch.Tensor,
    expected: torch.Tensor,
    allowed: Allowance,
    framework: torch.Tensor | None,
    bitwise: bool,
    explain: Explain,
) -> Finding:
    import torch

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
    candidate, expected = numbers(candidate), real(expected)
    if not candidate.is_floating_point():
        wrong = candidate != expected.to(candidate.dtype)
        if framework is not None:
            wrong &= candidate != framework
        return _exactly(candidate, expected, wrong, equal, explain)
    slope, offset = _cap(_dtype(candidate), allowed)
    distance = measure(candidate, expected, slope)
    if not math.isfinite(distance.error):
        finite = torch.isfinite(expected)
        strange = torch.isfinite(candidate) != finite
        strange |= ~(finite | (candidate == expected) | (candidate.isnan() & expected.isnan()))
        if bool(strange.any()):
            (signal, *also), detail = explain(candidate, expected, strange)
            also = [name for name in (signal, *also) if name != "wrong.values"]
            return Finding(
                "wrong.non_finite",
                math.inf,
                allowed.framework_error,
                allowed.norm,
                detail,
                share=_share(strange),
                also=tuple(also),
            )
        candidate, expected = candidate.masked_fill(~finite, 0), expected.masked_fill(~finite, 0)
        distance = measure(candidate, expected, slope)
    if allowed.rule == "equal":
        return _exactly(
            candidate, expected, candidate != expected.to(candidate.dtype), equal, explain
        )
    row_wrong = distance.rows > allowed.row
    fits = distance.error <= allowed.norm and not bool(row_wrong.any())
    if fits and distance.error > allowed.apart:
        fits = apart(candidate, expected) <= allowed.apart
    right = Finding(None, distance.error, allowed.framework_error, allowed.norm, "", equal)
    if fits and (
        drowned := lost(candidate, expected, allowed.faint)
        or lost_anywhere(candidate, expected, allowed.decades)
    ):
        return _drowned(candidate, expected, drowned, explain)
    if fits and (distance.excess <= offset * distance.rms or distance.worst <= allowed.least):
        return right
    wrong = _beyond(candidate, expected, slope, offset * distance.rms, allowed.least)
    if fits and not bool(wrong.any()):
        return right
    # no single element stands out: show the rows that are off, or the largest differences
    if not bool(wrong.any()):
        wrong = (
            row_wrong.reshape(*expected.shape[:-1], 1).expand(expected.shape)
            if expected.dim() > 1
            else wrong
        )
        wrong = (
            wrong
            if bool(wrong.any())
            else _beyond(candidate, expected, 0.0, 0.0, 0.5 * distance.worst)
        )
    (signal, *also), detail = explain(candidate, expected, wrong)
    if signal == "wrong.values" and distance.error < _COARSE.get(_dtype(candidate), 0.0):
        signal = "wrong.precision"
    return Finding(
        signal,
        distance.error,
        allowed.framework_error,
        allowed.norm,
        detail,
        share=_share(wrong),
        also=tuple(also),
    )


def _beyond(
    candidate: torch.Tensor, expected: torch.Tensor, slope: float, offset: float, least: float
) -> torch.Tensor:
    """Which elements are off by more than slope |r| + offset, and by more than `least`."""
    import torch

    wrong = torch.empty(expected.shape, dtype=torch.bool, device=expected.device)
    for own, wanted, found in blocks(candidate, expected, wrong):
        allowed = wanted.abs().mul_(slope).add_(offset).clamp_(min=least)
        torch.gt((own.to(wanted.dtype) - wanted).abs_(), allowed, out=found)
    return wrong


def _drowned(
    candidate: torch.Tensor,
    expected: torch.Tensor,
    drowned: tuple[Faint | Decade, float, torch.Tensor],
    explain: Explain,
) -> Finding:
    import torch

    group, error, places = drowned
    wrong = torch.zeros(expected.numel(), dtype=torch.bool, device=expected.device)
    wrong[places] = True
    wrong = wrong.reshape(expected.shape)
    (signal, *also), detail = explain(candidate, expected, wrong)
    detail = (
        f"elements that are small beside the rest ({group.size:.0e} of it and less) are off by "
        f"{100 * error:.0f} %: {detail}"
    )
    return Finding(
        signal, error, group.framework, group.limit, detail, share=_share(wrong), also=tuple(also)
    )


def _cap(dtype: str, allowed: Allowance) -> tuple[float, float]:
    """(slope, offset): an element may be off by slope |r| + offset rms(r), or by allowed.least."""
    if allowed.rule != "integers":
        return allowed.element, allowed.element
    unit = ROUNDOFF[dtype]
    return 0.75 * unit, 16 * min(unit, ROUNDOFF["float32"])


# below it, an error everywhere is that of a lower precision inside
_COARSE = {"float32": 2.0**-7, "float64": 2.0**-22}


def _exactly(
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


def real(tensor: torch.Tensor) -> torch.Tensor:
    """Complex numbers as pairs."""
    import torch

    return torch.view_as_real(tensor) if tensor.is_complex() else tensor


def numbers(tensor: torch.Tensor) -> torch.Tensor:
    """Complex numbers as pairs, and booleans as bytes where one is neither 0 nor 1: torch takes all
    others for true, and who reads the bytes does not."""
    import torch

    if tensor.dtype == torch.bool and bool((tensor.view(torch.uint8) > 1).any()):
        return tensor.view(torch.uint8)
    return real(tensor)


def _share(wrong: torch.Tensor) -> float:
    return float(wrong.sum()) / max(wrong.numel(), 1)


def _dtype(tensor: torch.Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")
