"""Checks that the outputs of timed calls are right and stay unchanged, while no clock runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from ..correctness import oracle, quick_verdicts, tolerance
from ..correctness.distance import all_finite, same_bits
from ..exchange import output_changes
from ..exchange.case_pool import CasePool
from ..exchange.input_sets import Group, Half, InputSet
from ..exchange.slots import Slots
from ..tasks.drawer import Drawer

if TYPE_CHECKING:
    import torch

CHANGED = (
    "outputs changed while they were still held: one buffer, or a few in rotation, for several "
    "calls. Return separate memory from every call; it may be reused once nothing refers to it"
)
PENDING_BYTES = 32 << 20  # the most timed outputs that wait to be verified


class WrongWhenTimed(Exception):
    """A timed output was wrong, or what else timed calls leave."""

    def __init__(
        self,
        case: str,
        finding: oracle.Finding,
        what: str = "an output of a timed call is wrong",
    ) -> None:
        off = (
            f" (off by {finding.error:.2g} of its norm, {finding.limit:.2g} allowed)"
            if finding.limit
            else ""
        )
        super().__init__(f"case {case}: {what}{off}: {finding.detail}")
        self.case, self.finding = case, finding


def verify_outputs(
    case: str,
    pool: CasePool,
    pending: list[tuple[Any, Group]],
    half: Half,
    slots: Slots,
    drawer: Drawer,
) -> None:
    """Verify every timed output against expected values rounded to the output's dtype, and outputs
    of unmeasured calls against those of `half`'s warm set. Outputs wait until then, because a
    comparison takes longer than a small burst, and bursts in close succession see the same state of
    the machine.

    Limits come from other draws. An output beyond them is compared under the limits for exactly its
    inputs and parameters, which `drawer` draws again: where a difference cancels or few elements
    are not zero, the framework itself may be as far off (a plain copy was called wrong on an H100,
    in three elements of a GEMM less a constant, under ReLU). It may happen to round these well, so
    what it is off by in more draws is allowed, too: of a column that hardly varies, one rounding
    decides a batch norm, and a plain copy for 64 rows was called wrong in 4 of 14 searches."""

    def more(
        number: int, of: InputSet, again: InputSet | None = None
    ) -> Sequence[tolerance.FrameworkAllowance]:
        again = again or drawer.draw_again(pool, half.state, of)
        found = drawer.framework_allowances(pool, half.state, of.family, again)
        return [each[number] for each in found]

    right: list[torch.Tensor] = []
    warm_set, changed = half.warm_set, half.state != 0
    for memory, group in pending:
        outputs = slots.stack(memory, pool.warm_calls + len(group.sets))
        for number, (stack, allowance, typical) in enumerate(
            zip(outputs, pool.allowances, half.typical_sizes, strict=True)
        ):
            for output in stack[: pool.warm_calls]:
                if len(right) > number and same_bits(output, right[number]):
                    continue
                reference = (
                    warm_set.expectation(number, output),
                    warm_set.allowances[number],
                    warm_set.framework[number],
                )
                finding = oracle.compare(output, *reference, pool.bitwise)
                finding = oracle.compare_by_more_draws(
                    finding, output, *reference, partial(more, number, warm_set)
                )
                _raise_if_wrong(case, finding, output, changed=changed)
                right = right if len(right) > number else [*right, output]
            timed, framework = stack[pool.warm_calls :], group.framework[number]
            expected = group.expectation(number, timed)
            if pool.bitwise and framework is not None:
                if not same_bits(timed.to(framework.device), framework):
                    _raise_if_wrong(
                        case,
                        oracle.compare(timed, expected, allowance, framework, True),
                        timed,
                        changed=changed,
                    )
                continue
            families = [input_set.family for input_set in group.sets]
            for family in dict.fromkeys(families):
                calls = [call for call, other in enumerate(families) if other == family]
                limits, size = (
                    (allowance, typical)
                    if family == "dense"
                    else (pool.family_allowances[family][number], tolerance.TypicalSize())
                )
                if half.allowances:
                    limits = tolerance.envelope(half.allowances[number], limits)
                if quick_verdicts.are_surely_right(timed, expected, limits, size, framework, calls):
                    continue
                for call in calls:
                    call_limits = tolerance.for_timed_call(limits, expected[call], size)
                    other = None if framework is None else framework[call]
                    finding = oracle.compare(timed[call], expected[call], call_limits, other)
                    if finding.signal is not None and limits.rule == "rounding":
                        input_set = group.sets[call]
                        again = drawer.draw_again(pool, half.state, input_set)
                        if again is not None and _is_right_there(
                            number, timed[call], expected[call], again, limits, other
                        ):
                            continue
                        finding = oracle.compare_by_more_draws(
                            finding,
                            timed[call],
                            expected[call],
                            limits,
                            other,
                            partial(more, number, input_set, again),
                            size,
                        )
                    _raise_if_wrong(case, finding, timed[call], changed=changed)
    pending.clear()


def _is_right_there(
    number: int,
    output: torch.Tensor,
    expected: torch.Tensor,
    again: InputSet,
    limits: tolerance.Allowance,
    other: torch.Tensor | None,
) -> bool:
    """Whether an output is right by what the framework itself is off by on exactly these inputs.
    Nothing is asked of elements in which it overflows and the reference does not. limits: for its
    faint elements. other: of integers, what else is right."""
    exact = replace(
        tolerance.for_timed_call(again.allowances[number], expected, tolerance.TypicalSize()),
        faint=limits.faint,
        decades=limits.decades,
    )
    framework = again.framework[number]
    # eight bits have no infinity
    if framework.element_size() > 1 and not all_finite(framework):
        lost = ~framework.isfinite() & expected.to(framework.device).isfinite()
        output = output.masked_fill(lost.to(output.device), 0)
        expected = expected.masked_fill(lost.to(expected.device), 0)
    return oracle.is_right(output, expected, exact, other)


def raise_if_changed(case: str, intact: bool) -> None:
    """Raise WrongWhenTimed if outputs did not stay unchanged."""
    if not intact:
        raise WrongWhenTimed(case, oracle.Finding("wrong.held_output", 1.0, 0.0, 0.0, CHANGED))


def _raise_if_wrong(
    case: str, finding: oracle.Finding, output: torch.Tensor, *, changed: bool
) -> None:
    if finding.signal is None:
        return
    if output.numel() > 1 and 0 < finding.share * output.numel() < 1.5:
        finding = replace(finding, detail=f"{finding.detail}. {output_changes.MAY_BE_CHANGED}")
    if changed:
        finding = replace(
            finding,
            signal="wrong.stale_parameters",
            detail=f"after the parameters changed, {finding.detail}",
        )
    raise WrongWhenTimed(case, finding)
