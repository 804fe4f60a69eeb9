"""Validates that a case can distinguish a kernel from a fake: outputs that need no work must fail
on at least one checking set.

The filters are those used to validate problem sets (robust-kbench, BackendBench), applied with the
oracle itself: a fake counts only if it passes the same check that candidates have to pass.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from ...wire import dtypes
from ...wire.nesting import tensors_of
from ..correctness import oracle, quick_verdicts, tolerance
from ..correctness.distance import all_finite, rms
from ..exchange.case_pool import CasePool
from ..exchange.input_sets import InputSet

if TYPE_CHECKING:
    import torch

# index of a checking set -> the fake output for it
Fake = Callable[[int], "torch.Tensor | None"]
# norm-wise error of the framework against float64 that is too large; the most in narrow dtypes
DISAGREES, HOPELESS = 0.02, 0.5
INEXACT = 0.1  # tolerated share of an integer output where the framework differs from float64
ROWS_COMPUTED = 8  # a fake computes one row in so many
MOST_AXES = 4
_FIX = "Use inputs that make the outputs vary (other distribution, scale or shape)."


def problem(pool: CasePool) -> str:
    """Return why a verdict on this case would prove nothing, and the fix; "" if it would."""
    plain = [input_set for _, input_set in pool.checking if input_set.family == "dense"]
    for input_set in plain:
        if reason := _disagreement(pool, input_set):
            return reason
    return _lazy(pool)


def _disagreement(pool: CasePool, input_set: InputSet) -> str:
    """Return how the reference disagrees with itself in float64, "" if it does not."""
    if not input_set.finite:
        return (
            "the outputs hold NaN or infinity on the task's own inputs, so rounding cannot be "
            "judged. Keep the inputs inside the operator's domain. If a mask fills places with "
            "-inf, return the values before the fill, or fill with a number of the size of the "
            "others, such as 0."
        )
    for number, (output, expected, allowed) in enumerate(
        zip(input_set.framework, input_set.expected, input_set.allowances, strict=True)
    ):
        dtype = pool.outputs["leaves"][number]["dtype"]
        if not dtypes.rounds(dtype):
            right = input_set.expectation(number, output).to(output.dtype)
            share = float((output != right).double().mean()) if output.numel() else 0.0
            if share > INEXACT:
                return (
                    f"output {number} differs from its float64 result in {share:.0%} of its "
                    f"elements. {_FIX}"
                )
            continue
        if not all_finite(output):
            return (
                f"output {number} overflows in {dtype} and is finite in float64. Use a smaller "
                "scale or a wider dtype."
            )
        if allowed.framework_error > min(
            HOPELESS, max(DISAGREES, 64 * tolerance.floor(dtype, pool.reductions[number]))
        ):
            size = rms(expected) or 1.0  # where it is zero, the error is absolute
            return (
                f"output {number} has the size {size:.1e} in float64, and in {dtype} it is off by "
                f"{allowed.framework_error * size:.1e}, so rounding cannot be judged. Use inputs "
                "that cancel less, or a wider dtype; forward must not depend on the dtype."
            )
    return ""


def _lazy(pool: CasePool) -> str:
    """Return which fakes pass for all outputs, "" if at least one output detects every fake."""
    inputs = [tensors_of(input_set.file.value(input_set.layout)) for input_set in _judging(pool)]
    fakes: list[str] = []
    for number in range(len(pool.outputs["leaves"])):
        sizes = [rms(input_set.expected[number]) for input_set in _judging(pool)]
        label = next(
            (
                name
                for name, fake in _fakes(pool, number, inputs)
                if _passes(pool, number, fake, sizes)
            ),
            "",
        )
        if not label:
            return ""
        fakes.append(label)
    labels = " and ".join(dict.fromkeys(fakes))
    return (
        f"{labels} would pass the check in place of the outputs, so a right result proves nothing. "
        f"{_FIX}"
    )


def _passes(pool: CasePool, number: int, fake: Fake, sizes: list[float]) -> bool:
    for position, input_set in enumerate(_judging(pool)):
        output, allowed = fake(position), input_set.allowances[number]
        if output is None:
            return False
        expected = input_set.expected[number]
        if input_set.alternatives:
            expected = input_set.expectation(number, output)
        if quick_verdicts.is_plainly_wrong(output, expected, allowed, sizes[position]):
            return False
        if not oracle.is_right(output, expected, allowed):
            return False
    return bool(pool.checking)


def _judging(pool: CasePool) -> list[InputSet]:
    """Return the sets that can fail a candidate; sets with special values cannot."""
    return [input_set for _, input_set in pool.checking if input_set.family != "special"]


def _fakes(
    pool: CasePool, number: int, inputs: list[list[torch.Tensor]]
) -> Iterator[tuple[str, Fake]]:
    import torch

    dtype: torch.dtype = getattr(torch, pool.outputs["leaves"][number]["dtype"])
    sets = [input_set.expected[number] for input_set in _judging(pool)]
    first = float(sets[0].double().mean()) if sets[0].numel() else 0.0

    def fill(expected: torch.Tensor, value: float) -> torch.Tensor:
        return (
            torch.tensor(value, dtype=torch.float64, device=expected.device)
            .to(dtype)
            .expand(expected.shape)
        )

    yield "zeros", lambda n: fill(sets[n], 0.0)
    yield "a constant", lambda n: fill(sets[n], first)
    if sets[0].numel() > 1:
        yield "their mean", lambda n: fill(sets[n], float(sets[n].double().mean()))
    yield "the outputs for other inputs", lambda n: sets[1 if n == 0 else 0].to(dtype)
    for position, tensor in enumerate(inputs[0]):
        if tensor.dtype == dtype:
            for view in _views(tuple(tensor.shape), tuple(sets[0].shape)):
                yield "an input, or a view of it,", lambda n, p=position, v=view: v(inputs[n][p])  # type: ignore[misc]
    rows = sets[0].numel() // (sets[0].shape[-1] if sets[0].dim() > 1 else 1)
    if rows >= 2 * ROWS_COMPUTED:
        for spread in (False, True):
            yield (
                "a few rows computed and the rest made up",
                lambda n, s=spread: _few_rows(sets[n], dtype, s),  # type: ignore[misc]
            )


def _few_rows(expected: torch.Tensor, dtype: torch.dtype, spread: bool) -> torch.Tensor:
    """Return outputs that are right in some random rows; the others are zero or, with `spread`, the
    average of these rows."""
    import torch

    rows = expected.reshape(-1, expected.shape[-1] if expected.dim() > 1 else 1)
    sample = random.sample(range(len(rows)), len(rows) // ROWS_COMPUTED)
    computed = rows[sample] if rows.is_complex() else rows[sample].double()
    filler = computed.mean(0) if spread else torch.zeros_like(computed[0])
    # torch supports few assignments of 8-bit floats and of unsigned integers
    work = dtype if dtype.is_complex else torch.float64
    made_up = filler.to(work).repeat(len(rows), 1)
    made_up[sample] = computed.to(work)
    return made_up.reshape(expected.shape).to(dtype)


def _views(
    input_shape: tuple[int, ...], output_shape: tuple[int, ...]
) -> Iterator[Callable[[torch.Tensor], torch.Tensor]]:
    """Yield the ways to turn a tensor of one shape into another shape without computing: permuting
    axes, reshaping, cutting, repeating."""
    if _count(input_shape) == _count(output_shape):
        orders = (
            itertools.permutations(range(len(input_shape)))
            if len(input_shape) <= MOST_AXES
            else iter([tuple(range(len(input_shape)))])
        )
        for order in orders:
            yield lambda t, o=order: t.permute(o).reshape(output_shape)  # type: ignore[misc]
        return
    differing = (
        [a for a, (g, w) in enumerate(zip(input_shape, output_shape)) if g != w]  # noqa: B905
        if len(input_shape) == len(output_shape)
        else []
    )
    if (
        len(differing) == 1
        and (axis := differing[0]) >= 0
        and 0 < output_shape[axis] < input_shape[axis]
    ):
        length = output_shape[axis]
        for start in {0, input_shape[axis] - length}:
            yield lambda t, s=start: t.narrow(axis, s, length)  # type: ignore[misc]
    for axis in range(len(input_shape)):
        if input_shape[:axis] + input_shape[axis + 1 :] == output_shape:
            for index in (0, -1):
                yield lambda t, a=axis, i=index: t.select(a, i)  # type: ignore[misc]
    padded = (1,) * (len(output_shape) - len(input_shape)) + input_shape
    if len(padded) == len(output_shape) and all(
        p in (1, w) for p, w in zip(padded, output_shape, strict=True)
    ):
        yield lambda t: t.expand(output_shape)


def _count(shape: tuple[int, ...]) -> int:
    total = 1
    for extent in shape:
        total *= extent
    return total
