"""How far values may be off on which a reference decides, and which are equal whatever they are.

The reference runs once more in high precision, with each input and the result of each operator that
rounds moved by a small part of itself, up or down. What a value changes by, divided by that part,
shows the sizes of the terms behind it: a difference of two large numbers changes by more than
itself, a fill by nothing. And two sides of a comparison that stay equal are equal in every order of
operations: a rectified number and zero, a sum over padding, the largest number and itself. A
difference that cancels, or a quotient of equal numbers, does not stay so.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import math
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from ..wire.nesting import map_tensors, tensors_of
from . import decision_runs, decisions
from .second_results import MOVED

# the moves that are tried, as fractions of the largest honest error
SIDES = (-1.0, 1.0, -0.125, 0.125, -0.015625, 0.015625)
Certainty = Literal["exact", "relative", "uncertain"]
"""How certain the values are on which an operator decides: without any error, with errors that are
small beside each of them (products), or with errors that are small beside their usual size."""


@dataclass(frozen=True)
class Uncertainty:
    """What the decisions of a call are like, by number. usual: the usual size of the terms behind
    their values, for each line where places along an axis are chosen."""

    usual: dict[int, Any]
    _equal: dict[float, dict[int, Any]]

    def equal(self, side: float) -> dict[int, Any]:
        """Return where both sides of comparisons are equal whatever they are, also if what was
        rectified or decided before is moved as far as this side, of SIDES, up or down."""
        return self._equal[_coarse(side)]


@dataclass
class _Seen:
    """What a run saw. decided: what decisions depend on, by number, and the axis along which they
    choose. equal: where both sides of comparisons are equal, if anywhere. before: whether something
    is rectified or decided before the last of these."""

    decided: dict[int, tuple[list[Any], int | None]] = field(default_factory=dict)
    equal: dict[int, Any] = field(default_factory=dict)
    before: bool = False


def measure(
    call: Callable[[Any], Any], inputs: Any, slack: float, certain: Sequence[Certainty]
) -> Uncertainty:
    """Measure call(inputs), in high precision. slack, certain: see
    rounding.compute_alternatives."""
    plain = _look(call, inputs, certain)
    seeds = itertools.count()
    moved = map_tensors(inputs, lambda tensor: _apart(tensor, next(seeds)))

    def again(side: float) -> _Seen:
        try:
            return _look(call, moved, certain, side, slack, apart=True)
        except Exception:  # the task's own code, which accepts the inputs themselves
            return _Seen()

    alike = again(0.0)
    usual = {}
    for number, (values, axis) in plain.decided.items():
        others, _ = alike.decided.get(number, ([], None))
        if values and [t.shape for t in values] == [t.shape for t in others]:
            usual[number] = _usual_change(values, others, axis)
    equal = {}
    for side in {_coarse(side) for side in SIDES}:
        # a later operator may turn up into down
        there = [again(side), again(-side)] if plain.equal and plain.before else [alike]
        equal[side] = functools.reduce(_still_equal, [each.equal for each in there], plain.equal)
    return Uncertainty(usual, equal)


def _coarse(side: float) -> float:
    return max(decisions.LEAST_GROUPING, abs(side))


def _still_equal(before: dict[int, Any], now: dict[int, Any]) -> dict[int, Any]:
    return {
        number: where & now[number]
        for number, where in before.items()
        if number in now and now[number].shape == where.shape
    }


def _look(
    call: Callable[[Any], Any],
    inputs: Any,
    certain: Sequence[Certainty],
    side: float = 0.0,
    slack: float = 0.0,
    *,
    apart: bool = False,
) -> _Seen:
    """Look at the decisions of call(inputs). side: to which what is rectified or decided is moved,
    by `slack`. apart: whether to move the results of operators that round."""
    seen, numbers, began = _Seen(), itertools.count(), False

    def at(name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> Sequence[Any]:
        nonlocal began
        if not decision_runs.positions(name, args, kwargs):
            began = began or decisions.rectifies(name)
            return decisions.move_rectified(name, args, side, slack) if side else args
        number = next(numbers)
        certainty = certain[number] if number < len(certain) else "uncertain"
        if certainty == "exact":
            return args
        if not side:
            seen.decided[number] = decisions.decided(name, args, kwargs)
        equal = decisions.are_equal(name, args)
        if equal is not None and bool(equal.any()):
            seen.equal[number], seen.before = equal, began
        began = began or name not in decisions.CHOICES
        if not side or name in decisions.CHOICES:  # what is chosen stays a copy of its source
            return args
        relative = certainty == "relative"
        return decision_runs.move(name, args, kwargs, side, slack, relative=relative)

    def after(name: str, args: Any, result: Any) -> None:
        if decision_runs.keeps_exact(name):
            return
        given = {decision_runs.storage(t) for t in tensors_of(args)}
        # what is computed twice from the same numbers stays the same
        seed = zlib.crc32(name.encode())
        for tensor in tensors_of(result):
            if name.endswith("_") or decision_runs.storage(tensor) not in given:
                with contextlib.suppress(RuntimeError):  # of elements that share their place
                    tensor.copy_(_apart(tensor, seed))

    decision_runs.watch(call, inputs, at, after if apart else None)
    return seen


def _apart(tensor: Any, seed: int) -> Any:
    """Return a tensor with each number moved by a part of itself, up to MOVED up or down."""
    import torch

    if not tensor.is_floating_point() or tensor.element_size() < 2:
        return tensor
    generator = torch.Generator(tensor.device).manual_seed(seed)
    parts = torch.rand(tensor.shape, generator=generator, dtype=torch.float64, device=tensor.device)
    most = max(MOVED, 8 * torch.finfo(tensor.dtype).eps)
    return (tensor * (1 + most * (2 * parts - 1))).to(tensor.dtype)


def _usual_change(values: Sequence[Any], others: Sequence[Any], axis: int | None) -> Any:
    """Return the median size of what has changed, of those that have: along an axis, or of all."""
    import torch

    def usual(value: Any, other: Any) -> Any:
        change = (other - value).abs().double() / (MOVED / 2)
        change = torch.where(change.isfinite() & (change > 0), change, math.nan)
        if axis is None:
            return change.nanmedian().nan_to_num()
        return change.nanmedian(axis, keepdim=True).values.nan_to_num()

    found = [usual(*both) for both in zip(values, others, strict=True)]
    return functools.reduce(torch.maximum, found)
