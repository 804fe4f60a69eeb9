"""The allowances for the outputs of an input set, from the inputs' family and the framework's own
error."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ...wire.slack import Slack
from ...workers.families import are_exact
from ...workers.family_values import SHIFT
from ..correctness import decades, distance, small_values, tolerance
from ..exchange.case_pool import CasePool
from ..exchange.input_sets import InputSet
from .input_families import NAMED

if TYPE_CHECKING:
    import torch

# Factors on limits that are derived from one draw and applied to others; draws of the families
# ALIKE resemble each other. What exceeds such a limit is compared with that of exactly its inputs,
# so these can be close: a sample of plain inputs is off by as little as the limits allow.
UNEVEN_FACTOR, ALIKE_FACTOR = 4.0, 1.25
ALIKE = ("moved", "ends", "gathered", "above", "below", "sparse", "clustered", "moved parameters")
MOST_RELIEF = 1e30  # single precision must hold a limit
# The limits of a named set apply to other draws unchanged if an output has at least this many
# elements, each with its own likelihood; k is then limited to this multiple of the framework's
# error (in 16 bits, the errors of 128 losses differ by a tenth).
MANY_NAMED, NAMED_TIMES = 64, 1.5
# by family, the least growth of honest sums' rounding errors, and that of repeated ones as a
# multiple of what it is with K equal terms, see _growth
_GROWTHS = {
    "shifted": (1.5 * SHIFT, 0.0), "negative": (4.0, 0.0), "scaled": (4.0, 0.0),
    "dense": (1.0, 0.0), "special": (1.0, 0.0), "moved": (4.0, 0.0), "grown": (4.0, 0.0),
    "clustered": (4.0, 0.0), "moved parameters": (4.0, 0.0), "uneven": (64.0, 1.0),
    "named": (64.0, 1.0), "uneven parameters": (64.0, 1.0), "raised parameters": (64.0, 1.0),
    "sparse": (4.0, 1 / 16), "ends": (4.0, 1 / 16), "gathered": (4.0, 1 / 16),
    "above": (1.5 * SHIFT, 1 / 16), "below": (1.5 * SHIFT, 1 / 16),
}  # fmt: skip


def framework_allowances(pool: CasePool, input_set: InputSet) -> list[tolerance.FrameworkAllowance]:
    """Return what the framework's own error alone would allow of each output of a set."""
    if not input_set.framework_allowances:
        allowances = set_allowances(pool, input_set, floors=False)
        input_set.framework_allowances = list(
            map(tolerance.framework_allowance, allowances, input_set.expected)
        )
    return input_set.framework_allowances


def set_allowances(
    pool: CasePool, input_set: InputSet, *, floors: bool = True
) -> list[tolerance.Allowance]:
    """Return the allowance of each output for exactly these inputs. floors: whether it is at least
    what any honest arithmetic needs."""
    rule: tolerance.Rule = (
        "equal" if pool.exact else "integers" if _integral(input_set) else "rounding"
    )
    return [
        tolerance.derive(
            expected,
            framework,
            terms,
            rule,
            _growth(terms, input_set.family),
            relief,
            steady=steady,
            pointwise=pool.pointwise,
            single=single,
            times=NAMED_TIMES
            if input_set.family == NAMED and expected.numel() >= MANY_NAMED
            else math.inf,
            second=second,
        )
        for expected, framework, second, terms, steady, single, relief in zip(
            input_set.expected,
            input_set.framework,
            input_set.second or itertools.repeat(None, len(input_set.expected)),
            pool.reductions,
            pool.steady,
            pool.apart_growths,
            _reliefs(pool, input_set) if floors else [0.0] * len(input_set.expected),
            strict=True,
        )
    ]


def family_allowances(pool: CasePool, input_set: InputSet) -> list[tolerance.Allowance]:
    """Return the allowances for other draws of a family of timed sets, or in other states of the
    parameters of this kind, from one draw of it and, for uneven families, from the plain draws."""
    outputs = zip(pool.allowances, input_set.allowances, input_set.expected, strict=True)
    if input_set.family == NAMED:
        return [
            tolerance.widen(allowance, 1.0 if expected.numel() >= MANY_NAMED else UNEVEN_FACTOR)
            for _, allowance, expected in outputs
        ]
    factor = ALIKE_FACTOR if input_set.family in ALIKE else UNEVEN_FACTOR
    return [
        tolerance.widen(tolerance.envelope(plain, allowance), factor)
        for plain, allowance, _ in outputs
    ]


def note_faint_elements(
    pool: CasePool, plain: Sequence[InputSet], again: Sequence[torch.Tensor]
) -> None:
    """Add limits for elements that are small in plain draws, at the same places in each draw or at
    changing ones."""
    for number, allowance in enumerate(pool.allowances):
        framework = [distance.real(input_set.framework[number]) for input_set in plain]
        if not framework[0].is_floating_point() or allowance.rule == "equal":
            continue
        draws = [
            distance.real(expected)
            for expected in (*(input_set.expected[number] for input_set in plain), again[number])
        ]
        below = max(allowance.element, allowance.least / max(distance.rms(draws[0]), 1e-300))
        groups = small_values.find(draws, framework, below)
        ratio = allowance.norm / allowance.framework_error if allowance.framework_error else 1.0
        ratio = max(small_values.FACTOR, ratio)
        by_value = decades.find(draws[: len(framework)], framework, below, ratio)
        pool.allowances[number] = replace(allowance, faint=groups, decades=by_value)
        for input_set in plain:
            input_set.allowances[number] = replace(
                input_set.allowances[number], faint=groups, decades=by_value
            )


def _integral(input_set: InputSet) -> bool:
    """Return whether sums and products of a set need no rounding. The family alone does not decide:
    a task may have inputs that no family changes."""
    return input_set.family == "exact" and are_exact(
        input_set.file.value(input_set.layout, input_set.base)
    )


def _growth(terms: int, family: str) -> float:
    """Return the growth of honest sums' rounding errors in a family, as a factor on their part of
    the oracle's floor.

    With few, equal or nearly equal values, or many next to a large one, rounding errors repeat
    instead of cancelling and grow with K, not with its root. Of sparse values, and of those at the
    ends, few count. Scaled values saturate functions: of 1 - tanh(x)^2 little is left, but all of
    its rounding error (1 of 27 draws of an honest gate was refused). Uneven values do so much more:
    where two large terms nearly cancel before such a function, the result has their rounding errors
    (1 in 200 draws of a plain LSTM step was refused; now none of 2,400, which used up to a third of
    the limits). Where a named value is close to the sum that it is subtracted from, the rounding
    errors of both are large compared with the difference. Sums of shifted values are off in
    proportion to the shift (a single pass for mean and variance in proportion to its square, which
    is detected), and so are those of values `above` and `below`."""
    least, repeated = _GROWTHS.get(family, (1.0, 1.0))
    return max(least, repeated * max(1.0, math.sqrt(terms) / 2))


def rounding_slack(pool: CasePool, family: str) -> Slack | None:
    """Return what an honest kernel's values may be off by before it rounds to whole numbers or
    decides; None where these are exact."""
    if not pool.roundoff:
        return None
    least, repeated = _GROWTHS.get(family, (1.0, 1.0))
    return Slack(pool.roundoff, max(least, repeated), repeated, max(pool.reductions))


def _reliefs(pool: CasePool, input_set: InputSet) -> list[float]:
    """Return factors on the floor for inputs that were scaled down, so that errors count as at the
    task's own scale."""
    if input_set.family != "small":
        return [1.0] * len(input_set.expected)
    plain = pool.checking[0][1].expected
    return [
        min(MOST_RELIEF, max(1.0, distance.rms(a) / (distance.rms(b) or 1.0)))
        for a, b in zip(plain, input_set.expected, strict=True)
    ]
