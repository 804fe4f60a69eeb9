"""How far values may be off on which a reference decides, and which are equal whatever they are.

The reference runs once more in high precision, with each input and the result of each operator that
rounds moved by a small part of itself, up or down. What a value changes by, divided by that part,
shows the size of the terms behind it; a fill does not change. Values are moved by what is usual
there, or by their own usual size where that is less. And two sides of a comparison that stay equal
are equal in every order of operations: a rectified number and zero, a sum over padding, the largest
number and itself. A difference that cancels, or a quotient of equal numbers, does not stay so.
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

# values that are looked at, of one comparison and of all decisions
MOST_OF_ONE, MOST_OF_ALL = 1 << 20, 1 << 24
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
    shapes: list[Any]  # of the call's outputs
    _equal: dict[float, dict[int, Any]]

    def equal(self, side: float) -> dict[int, Any]:
        """Return where both sides of comparisons are equal whatever they are, also if what was
        rectified or decided before is moved as far as this side, of SIDES, up or down."""
        return self._equal[_coarse(side)]


@dataclass
class _Seen:
    """What a run saw. decided: what decisions depend on, by number, and the axis along which they
    choose. equal: where both sides of comparisons are equal, if anywhere. before: whether something
    is rectified, or decided but for places, before the last of these. coarsest: the largest unit of
    what is computed in single precision or better. shapes: of the outputs."""

    decided: dict[int, tuple[list[Any], int | None]] = field(default_factory=dict)
    equal: dict[int, Any] = field(default_factory=dict)
    before: bool = False
    coarsest: float = 0.0
    shapes: list[Any] = field(default_factory=list)


def measure(
    call: Callable[[Any], Any], inputs: Any, slack: float, certain: Sequence[Certainty]
) -> Uncertainty:
    """Measure call(inputs), in high precision. slack, certain: see
    rounding.compute_alternatives."""
    import torch

    plain = _look(call, inputs, certain)
    by = max(MOVED, 8 * plain.coarsest)
    seeds = itertools.count()
    moved = map_tensors(inputs, lambda tensor: _apart(tensor, by, next(seeds)))

    def again(side: float) -> _Seen:
        try:
            return _look(call, moved, certain, side, slack, by)
        except torch.OutOfMemoryError:
            raise
        except Exception:  # the task's own code, which accepts the inputs themselves: as if alike
            return _Seen(equal=plain.equal)

    alike = again(0.0)
    usual = {}
    for number, (values, axis) in plain.decided.items():
        others, _ = alike.decided.get(number, ([], None))
        if values and [t.shape for t in values] == [t.shape for t in others]:
            usual[number] = _usual_change(values, others, axis, by)
    equal = {}
    for side in {_coarse(side) for side in SIDES}:
        # a later operator may turn up into down
        there = [again(side), again(-side)] if plain.equal and plain.before else [alike]
        equal[side] = functools.reduce(_still_equal, [each.equal for each in there], plain.equal)
    return Uncertainty(usual, plain.shapes, equal)


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
    by: float = 0.0,
) -> _Seen:
    """Look at the decisions of call(inputs). side: to which what is rectified or decided is moved,
    by `slack`. by: how far to move the results of operators that round."""
    import torch

    seen, numbers, began, room = _Seen(), itertools.count(), False, MOST_OF_ALL

    def at(name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> Sequence[Any]:
        nonlocal began, room
        if not decision_runs.positions(name, args, kwargs):
            began = began or decisions.rectifies(name)
            return decisions.move_rectified(name, args, side, slack) if side else args
        number = next(numbers)
        certainty = certain[number] if number < len(certain) else "uncertain"
        if certainty == "exact":
            return args
        if not side:
            values, axis = decisions.decided(name, args, kwargs)
            if axis is None:
                values = [t.reshape(-1)[:: max(1, t.numel() // MOST_OF_ONE)] for t in values]
            room -= sum(t.numel() for t in values)
            if room >= 0:
                seen.decided[number] = [t.clone() for t in values], axis
        equal = decisions.are_equal(name, args)
        if equal is not None and bool(equal.any()):
            seen.equal[number], seen.before = equal, began
        began = began or name not in decisions.CHOICES
        if not side or name in decisions.CHOICES:  # what is chosen stays a copy of its source
            return args
        relative = certainty == "relative"
        return decision_runs.move(name, args, kwargs, side, slack, relative=relative)

    def after(name: str, args: Any, result: Any) -> None:
        for tensor in tensors_of(result):
            if tensor.is_floating_point() and tensor.element_size() >= 4:
                seen.coarsest = max(seen.coarsest, torch.finfo(tensor.dtype).eps)
        # what is written in place may be the model's own
        if not by or name.endswith("_") or decision_runs.copies(name):
            return
        given = tensors_of(args)
        for tensor in tensors_of(result):
            if decision_runs.storage(tensor) in map(decision_runs.storage, given):
                continue
            # what is computed twice from the same numbers stays the same
            other = _apart(tensor, by, zlib.crc32(name.encode()))
            for one in given:  # so does what a factor of one leaves
                if one.shape == tensor.shape and one.dtype == tensor.dtype:
                    other = torch.where(one == tensor, tensor, other)
            with contextlib.suppress(RuntimeError):  # of elements that share their place
                tensor.copy_(other)

    outputs = decision_runs.watch(call, inputs, at, after)
    seen.shapes = [t.shape for t in outputs]
    return seen


def _apart(tensor: Any, by: float, seed: int) -> Any:
    """Return a tensor with each number moved by a part of itself, at most `by` up or down; numbers
    of 16 bits by a rounding or two of theirs."""
    import torch

    if not (tensor.is_floating_point() or tensor.is_complex()) or tensor.element_size() < 2:
        return tensor
    generator = torch.Generator(tensor.device).manual_seed(seed)
    parts = torch.rand(tensor.shape, generator=generator, dtype=torch.float64, device=tensor.device)
    most = max(by, 2 * torch.finfo(tensor.dtype).eps)
    return (tensor * (1 + most * (2 * parts - 1))).to(tensor.dtype)


def _usual_change(values: Sequence[Any], others: Sequence[Any], axis: int | None, by: float) -> Any:
    """Return the median size of what has changed where numbers were moved by up to `by`, of those
    that have: along an axis, or of all."""
    import torch

    def usual(value: Any, other: Any) -> Any:
        change = (other - value).abs().double() / (by / 2)
        change = torch.where(change.isfinite() & (change > 0), change, math.nan)
        if axis is None:
            return change.nanmedian().nan_to_num()
        return change.nanmedian(axis, keepdim=True).values.nan_to_num()

    found = [usual(*both) for both in zip(values, others, strict=True)]
    return functools.reduce(torch.maximum, found)
