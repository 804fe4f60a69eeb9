"""The tolerance of an output, derived from the framework's own error.

The error is norm-wise and relative to the reference, per tensor and per row. It may be a small
multiple of the framework's own rounding error in the same dtype, or a floor for honest arithmetic:
floor = 2 u + v sqrt(K), limit = max(k * error(framework), floor), with u the unit roundoff of the
output's dtype, v that of the accumulator (at least float32), K the reduction length, and k 4
(float32, float64), 3 (16 bit) or 2 (8 bit). A plain sequential sum of K terms of one sign is off by
about v sqrt(K / 3) (each partial sum rounds once, independently), so the floor is 1.7 times that.
With few rows it is larger, since their norm may be small by chance while rounding errors are those
of the terms (see few_rows_growth). No single element may be off by more than 8 floor (|r| +
rms(r)), or k times the framework's own worst element.

Where arithmetic leaves no choice, results must be exact: integers and booleans equal the
reference's or, where rounding decides (an argmax), the framework's; results of operators that only
move or compare values are equal; and on small integers whose results the framework represents
exactly, an element may be off only by its own rounding.
"""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from ...wire.dtypes import ROUNDOFF
from .decades import Decade
from .distance import all_finite, apart, dtype_name, measure, real, rms, rms_of
from .small_values import Faint

if TYPE_CHECKING:
    import torch

ROW_FACTOR = 8.0
CAP_FACTOR = 8.0
# times what the framework is off by in more draws (sums of 64 rows by one thread were up to 1.4
# times as far off as their limit), and the most, as times the first limits
IN_EACH_DRAW, MOST_BY_DRAWS = 2.0, 16.0
# what updates make of the errors of one sum: an update is often a few sums, one after another (a
# product, then its norm), and more than the second, in 16 bits the third, is a decision that went
# the other way
LEAST_CARRIED, MOST_CARRIED, MOST_CARRIED_NARROW = 6.0, 512.0, 8.0
# the most by which a draw may be smaller than usual by chance (of single normal values 1 in 1,000
# is); and the largest usual size, as a multiple of the lower quartile of the draws' sizes
MAX_RELAXATION, ALIKE = 1e3, 64.0
# of n draws of one normal value, about 1.6 n / f are below 2 / f of the usual size. So a draw among
# m such draws may be smaller than usual by this constant times n / m
NOT_ALONE = 6.0
# with a few-rows growth above the first, errors that neighbours do not share are measured by
# themselves; sizes of two draws within the second relative difference are not small by chance
MOST_APART, ALIKE_SIZES = 4.0, 0.02
# the largest relative difference of second results that is uncertainty; more is a step, such as a
# comparison that goes the other way
MOST_UNCERTAIN, MOST_NARROW = {"float64": 2.0**-26, "complex128": 2.0**-26}, 2.0**-5
Rule = Literal["rounding", "integers", "equal", "open"]


@dataclass(frozen=True)
class Allowance:
    """The allowed errors of an output, derived once from the framework's own error.

    norm, row: relative, of the whole output and of a row. element: of one element, as a multiple of
    (|r| + rms(r)). least: of one element in any case, absolute. rule: "integers" allows an element
    only its own rounding, "equal" no error, "open" any value, since several are right. faint: small
    elements that the other limits do not cover, see small_values. apart: as norm, for errors that
    neighbours along a row do not share. decades: as faint, for elements at changing places, see
    decades.
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
    """Return 2 u + growth v sqrt(K). growth: above 1 where rounding errors of a sum repeat, or
    where its terms are larger than the result suggests."""
    return 2 * ROUNDOFF[dtype] + growth * min(ROUNDOFF[dtype], ROUNDOFF["float32"]) * math.sqrt(
        max(reduction, 1)
    )


def few_rows_growth(shape: Sequence[int]) -> float:
    """Return the least growth for an output of this shape that is not steady: 16 / sqrt(rows), but
    at least 1.

    Simulated: of 80,000 plain float32 sums of 96 normal terms, spread along one row, one was off by
    8.2e-6 of its norm (14 times v sqrt(K)), and 6 % by more than 2 u + v sqrt(K); of 7 rows 8.2e-7;
    of 64 rows 3.2e-7, half of it."""
    count = math.prod(shape)
    rows = count // max(1, shape[-1]) if len(shape) > 1 else count
    return max(1.0, 16.0 / math.sqrt(max(rows, 1)))


def are_steady(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Return whether two draws of an output resemble each other. Then its terms do not cancel, and
    its norm is not small by chance (a loss, a mean of positive values). Matters only for outputs of
    few rows."""
    one, other = real(one), real(other)
    return rms_of(lambda a, b: a - b, one, other) <= 0.1 * rms_of(lambda a, b: a + b, one, other)


def single_growth(one: torch.Tensor, other: torch.Tensor) -> float:
    """Return the growth for errors that neighbours do not share: 1 for an output of few rows that
    each have the same size in two draws, infinite for others. Such sizes are not small by chance,
    so larger honest errors come only from sums over a row, and the whole row shares these."""
    one, other = real(one), real(other)
    if few_rows_growth(one.shape) <= MOST_APART or one.dim() < 2 or not one.numel():
        return math.inf
    if not one.is_floating_point():
        return math.inf
    sizes = [t.reshape(-1, t.shape[-1]).double().square().mean(1).sqrt() for t in (one, other)]
    alike = (sizes[0] - sizes[1]).abs() <= ALIKE_SIZES * sizes[0]
    return 1.0 if bool(alike.all()) else math.inf


def are_predictable(draws: Sequence[torch.Tensor], allowance: Allowance) -> bool:
    """Return whether draws of an output differ by no more than its tolerance. A constant would then
    pass as the output."""
    if not real(draws[0]).is_floating_point() or not draws[0].numel():
        return False
    spreads = [
        rms_of(lambda x, y: x - y, a, b) / math.sqrt(2) for a, b in itertools.combinations(draws, 2)
    ]
    return max(spreads) <= allowance.norm * min(map(rms, draws))


def element_cap(dtype: str, allowance: Allowance) -> tuple[float, float]:
    """Return (slope, offset): an element may be off by slope |r| + offset rms(r), or by
    allowance.least."""
    if allowance.rule != "integers":
        return allowance.element, allowance.element
    unit = ROUNDOFF[dtype]
    return 0.75 * unit, 16 * min(unit, ROUNDOFF["float32"])


def framework_factor(dtype: str) -> float:
    """Return k, a candidate's allowed error as a multiple of the framework's own."""
    return (
        4.0
        if ROUNDOFF[dtype] <= ROUNDOFF["float32"]
        else 3.0
        if ROUNDOFF[dtype] <= ROUNDOFF["bfloat16"]
        else 2.0
    )


def derive(
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
    second: torch.Tensor | None = None,
) -> Allowance:
    """Measure the framework's error for an output and derive a candidate's allowance.

    rule: the requested rule; it applies only where the framework itself is exact. growth: see
    floor(). relief: multiplies the floor where the inputs were scaled down, since the error at the
    task's own scale matters. steady: see are_steady. pointwise: each element is computed by itself,
    so that few_rows_growth counts elements instead of rows. single: the growth for errors that
    neighbours do not share, see single_growth. times: an upper limit on k, for outputs with so many
    similar elements that the framework's error predicts that of other implementations. second: a
    second result of the reference in high precision, from which the framework's error is measured
    as well; see `workers.second_results`.
    """
    import torch

    dtype, apart_growth = dtype_name(framework), max(growth, single)
    expected, framework = real(expected), real(framework)
    if not framework.is_floating_point():
        return Allowance(0.0, 0.0, 0.0, 0.0, 0.0)
    growth = max(
        growth,
        1.0 if steady else few_rows_growth((expected.numel(), 1) if pointwise else expected.shape),
    )
    base = floor(dtype, reduction, growth) * relief
    factor = min(times, framework_factor(dtype))
    if not (all_finite(expected) and all_finite(framework)):
        finite = torch.isfinite(expected) & torch.isfinite(framework)
        expected, framework = expected.masked_fill(~finite, 0), framework.masked_fill(~finite, 0)
        second = None if second is None else real(second).masked_fill(~finite, 0)
    distance = measure(framework, expected)
    # where the reference rounds in high precision as well, the framework agrees with itself: always
    # in float64, and in 16 bits if the reference casts to them
    tells = dtype not in MOST_UNCERTAIN and ROUNDOFF[dtype] <= ROUNDOFF["float32"]
    proven = tells or rule == "equal" or bool((expected.frac() == 0).all())
    rule = rule if distance.worst == 0.0 and proven else "rounding"
    references, distances = [expected], [distance]
    if second is not None and rule == "rounding":
        other = measure(framework, real(second))
        if other.error <= MOST_UNCERTAIN.get(dtype, MOST_NARROW):
            references, distances = [expected, real(second)], [distance, other]
    error, worst = (max(getattr(d, name) for d in distances) for name in ("error", "worst"))
    worst_row = max(float(d.rows.max()) if d.rows.numel() else 0.0 for d in distances)
    return Allowance(
        max(factor * error, base),
        ROW_FACTOR * max(worst_row, base),
        CAP_FACTOR * base,
        factor * worst,
        distance.error,
        rule,
        apart=max(
            factor * max(apart(framework, each) for each in references),
            floor(dtype, reduction, apart_growth) * relief,
        )
        if apart_growth < growth
        else math.inf,
    )


def derive_carried(
    expected: torch.Tensor, framework: torch.Tensor, moved: torch.Tensor, reduction: int
) -> tuple[Allowance, bool]:
    """Derive the allowance of a value that is updated in each of some calls, each with the errors
    of the ones before. moved: as expected, from numbers that were moved by roundings, which shows
    what the updates make of these. Returns as well whether they make more of them than roundings: a
    decision that goes the other way, or chaos. Then many values may be right.

    Measured: after 104 steps of a power iteration on matrices of 768 x 768 whose terms cancel,
    plain float32 sums ended up to 1.3e-4 from the exact result, the framework's blocked ones
    1.6e-5; where nothing cancels, 1.7e-6 and 0.6e-7 (2 u + v sqrt(K) is 1.8e-6). Of 40 matrices
    with a few large rows, plain sums ended up to 3.1e-6 off after one step, where roundings of the
    numbers moved nothing. Timed, such a kernel was 3.9e-6 and 5.8e-6 off, for which twice the floor
    (3.4e-6) was too little: hence the least growth."""
    unit = ROUNDOFF.get(dtype_name(framework), 0.0)
    if not unit:
        return derive(expected, framework, reduction), False
    precise, other = real(expected), real(moved)
    lost = ~(precise.isfinite() & other.isfinite())
    off = measure(other.masked_fill(lost, 0), precise.masked_fill(lost, 0)).error
    fine = unit <= ROUNDOFF["float32"]
    growth = min(max(LEAST_CARRIED, off / unit), MOST_CARRIED)
    # in 16 bits the floor has little to do with what the state itself is rounded to
    second = None if fine else moved
    allowance = derive(expected, framework, reduction, growth=growth, second=second)
    return allowance, off > (MOST_CARRIED if fine else MOST_CARRIED_NARROW) * unit


@dataclass(frozen=True)
class TypicalSize:
    """The usual size of an output. rms: the root mean square over many draws, 0 where each draw by
    itself is a good estimate. sizes: that of each draw, ascending."""

    rms: float = 0.0
    sizes: tuple[float, ...] = ()

    def relaxation(self, size: float) -> float:
        """Return the factor by which a draw of this size may be smaller than usual by chance. A
        single draw may be. If other draws are as small, the task itself produces such outputs, and
        a large factor would let zeros pass."""
        factor = min(MAX_RELAXATION, max(1.0, self.rms / max(size, 1e-300)))
        below = bisect.bisect_right(self.sizes, 2 * size)
        if factor == 1.0 or below < 2:
            return factor
        return min(factor, max(1.0, NOT_ALONE * len(self.sizes) / below))


def for_timed_call(allowance: Allowance, expected: torch.Tensor, typical: TypicalSize) -> Allowance:
    """Return the allowance for a timed call: one unit roundoff more, since its expected values were
    rounded once more, and relative to the usual size where few rows are small by chance (see
    typical_size), since no allowance was derived for its inputs."""
    unit = ROUNDOFF.get(dtype_name(expected), 0.0)
    factor = typical.relaxation(rms(expected)) if typical.rms else 1.0
    return replace(
        allowance,
        norm=allowance.norm * factor + unit,
        row=allowance.row * factor + 2 * unit,
        element=allowance.element * factor,
        apart=allowance.apart * factor + unit,
    )


def typical_size(draws: Sequence[torch.Tensor]) -> TypicalSize:
    """Return the usual size of one output over many draws. Where the task itself draws different
    sizes, the largest tell nothing about the others; so the size is limited to a generous multiple
    of the lower quartile (a quarter of the draws of one normal value are below a third of the usual
    size)."""
    if few_rows_growth(draws[0].shape) == 1.0:
        return TypicalSize()
    sizes = sorted(filter(None, map(rms, draws))) or [0.0]
    typical = min(math.hypot(*sizes) / math.sqrt(len(draws)), ALIKE * sizes[len(sizes) // 4])
    return TypicalSize(typical, tuple(sizes)) if math.isfinite(typical) else TypicalSize()


def widen(a: Allowance, factor: float = 2.0) -> Allowance:
    """Return the allowance times `factor` in every limit, without checks of small elements."""
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


@dataclass(frozen=True)
class FrameworkAllowance:
    """What the framework's own error alone would allow on one set, without a floor: as in an
    Allowance, but `least` relative to the size of the output."""

    norm: float
    row: float
    least: float
    apart: float


def framework_allowance(allowance: Allowance, expected: torch.Tensor) -> FrameworkAllowance:
    """Return what an allowance that was derived without a floor says of any output."""
    size = finite_rms(expected)
    least = allowance.least / size if size else 0.0
    return FrameworkAllowance(allowance.norm, allowance.row, least, allowance.apart)


def finite_rms(values: torch.Tensor) -> float:
    """Return the root mean square of the elements, those that are not finite counted as zero."""
    values = real(values)
    return rms(values if all_finite(values) else values.masked_fill(~values.isfinite(), 0))


def by_more_draws(
    limits: Allowance, draws: Sequence[FrameworkAllowance], dtype: torch.dtype, size: float
) -> Allowance:
    """Return limits by what the framework is off by in several draws as well, since it may happen
    to round one well. size: of the output, see finite_rms. In high precision this counts twice: the
    framework may add up with more threads, and so more exactly, in all of them. Limits become at
    most MOST_BY_DRAWS times as large, since a draw may be hopeless; floors stay as they are."""
    fine = ROUNDOFF.get(str(dtype).removeprefix("torch."), 1.0) <= ROUNDOFF["float32"]
    times = IN_EACH_DRAW if fine else 1.0

    def wider(limit: float, found: Iterable[float], base: float = 0.0) -> float:
        most = MOST_BY_DRAWS * max(limit, base)
        return max(limit, min(times * max(found), most))

    return replace(
        limits,
        norm=wider(limits.norm, [each.norm for each in draws]),
        row=wider(limits.row, [each.row for each in draws]),
        least=wider(limits.least, [size * each.least for each in draws], limits.element * size),
        apart=wider(limits.apart, [each.apart for each in draws]),
    )


def envelope(a: Allowance, b: Allowance) -> Allowance:
    """Return the larger of both in every limit."""
    return Allowance(
        max(a.norm, b.norm),
        max(a.row, b.row),
        max(a.element, b.element),
        max(a.least, b.least),
        max(a.framework_error, b.framework_error),
        a.rule if a.rule == b.rule else "rounding",
        a.faint,
        max(a.apart, b.apart),
        a.decades,
    )
