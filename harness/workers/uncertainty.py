"""How far values may be off on which a reference decides, and which are equal whatever they are.

The reference runs twice more in high precision, with each input and the result of each operator
that rounds moved by a small part of itself, up or down. What a value changes by, divided by that
part, shows the size of the terms behind it; a fill does not change. A value that is compared or
rounded is moved by its own size and that of its own terms, so that large values beside it make
nothing close. Places of values in order are chosen by what is usual in their line. And two sides of
a comparison that stay equal are equal in every order of operations: a rectified number and zero, a
sum over padding, the largest number and itself. A difference that cancels, or a quotient of equal
numbers, does not stay so.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..wire.nesting import map_tensors, tensors_of
from ..wire.slack import Slack
from . import certainties, decision_runs, decisions
from .certainties import Certainty
from .second_results import MOVED

# values that are looked at, of one decision and of all; of a comparison of more some, for what is
# usual among them
MOST_OF_ONE, MOST_OF_ALL = 1 << 23, 1 << 24
# Of a value's changes in two runs the larger one counts, up to what is usual this many times: both
# may be small by chance (below a twentieth of the size of its terms in 1 of 400 values).
BY_CHANCE = 16.0
FEW = 2.0**-6  # the share of values that may be off by more than single precision for other reasons
# the moves that are tried, as fractions of the largest honest error
SIDES = (-1.0, 1.0, -0.125, 0.125, -0.015625, 0.015625)


@dataclass(frozen=True)
class Uncertainty:
    """What the decisions of a call are like, by number. sizes: of the terms behind each value, or
    what is usual there where values are too many. off: what the framework's own values are off by
    where it computes in less than single precision, relative to their sizes."""

    sizes: dict[int, Any]
    off: dict[int, float]
    shapes: list[Any]  # of the call's outputs
    _equal: dict[float, dict[int, Any]]

    def equal(self, side: float) -> dict[int, Any]:
        """Return where both sides of comparisons are equal whatever they are, also if what was
        rectified or decided before is moved as far as this side, of SIDES, up or down."""
        return self._equal[_coarse(side)]

    def move(
        self,
        name: str,
        args: Sequence[Any],
        kwargs: dict[str, Any],
        number: int,
        certainty: Certainty,
        *,
        side: float,
        slack: Slack,
    ) -> Sequence[Any]:
        """Return the arguments of a decision with its values moved to a side."""
        return decision_runs.move(
            name,
            args,
            kwargs,
            side,
            certainty.allowed(slack, self.off.get(number, 0.0)),
            relative=certainty.kind == "relative",
            sizes=self.sizes.get(number),
        )


@dataclass
class _Seen:
    """What a run saw. decided: what decisions depend on, by number, and the axis along which they
    choose. equal: where both sides of comparisons are equal, if anywhere. before: whether something
    is rectified, or decided but for places, before the last of these. coarsest: the largest unit of
    what is computed in single precision or better. shapes: of the outputs. some: decisions of which
    some values were taken. names: of operators that decide. narrow: whether a number of 16 bits is
    among inputs or results."""

    decided: dict[int, tuple[list[Any], int | None]] = field(default_factory=dict)
    equal: dict[int, Any] = field(default_factory=dict)
    before: bool = False
    coarsest: float = 0.0
    shapes: list[Any] = field(default_factory=list)
    some: set[int] = field(default_factory=set)
    names: dict[int, str] = field(default_factory=dict)
    narrow: bool = False


def measure(
    call: Callable[[Any], Any], inputs: Any, slack: Slack, certain: Sequence[Certainty]
) -> Uncertainty:
    """Measure call(inputs), in high precision. slack, certain: see
    rounding.compute_alternatives."""
    import torch

    plain = _look(call, inputs, certain)
    by = max(MOVED, 8 * plain.coarsest)

    def again(side: float, draw: int = 0, *, narrow: bool = True) -> _Seen:
        numbers = itertools.count()
        moved = map_tensors(
            inputs,
            lambda tensor: (
                _apart(tensor, by, _seed(draw, next(numbers)))
                if narrow or not _is_narrow(tensor)
                else tensor
            ),
        )
        move = _Move(side, slack, by, draw, narrow)
        try:
            return _look(call, moved, certain, move)
        except torch.OutOfMemoryError:
            raise
        except Exception:  # the task's own code, which accepts the inputs themselves: as if alike
            return _Seen(equal=plain.equal)

    alike = again(0.0)
    # what 16 bits hold moves by roundings of its own, which tell nothing of the terms behind
    runs: list[dict[int, tuple[list[Any], int | None]]] = []
    if plain.decided:
        first = again(0.0, draw=2, narrow=False) if plain.narrow else alike
        runs = [first.decided, again(0.0, draw=1, narrow=False).decided]
    sizes = {}
    for number, (values, axis) in plain.decided.items():
        others = [run[number][0] for run in runs if number in run]
        shapes = [t.shape for t in values]
        if others and all([t.shape for t in each] == shapes for each in others):
            at = decisions.moved(plain.names[number], range(len(values)))
            sizes[number] = _sizes(values, others, axis, by, at, each=number not in plain.some)
    equal = {}
    for side in {_coarse(side) for side in SIDES}:
        # a later operator may turn up into down
        there = [again(side), again(-side)] if plain.equal and plain.before else [alike]
        equal[side] = functools.reduce(_still_equal, [each.equal for each in there], plain.equal)
    off = {
        number: _off(certainties.of(certain, number), each, plain.decided[number][0])
        for number, each in sizes.items()
    }
    return Uncertainty(sizes, off, plain.shapes, equal)


def _coarse(side: float) -> float:
    return max(decisions.LEAST_GROUPING, abs(side))


def _still_equal(before: dict[int, Any], now: dict[int, Any]) -> dict[int, Any]:
    return {
        number: where & now[number]
        for number, where in before.items()
        if number in now and now[number].shape == where.shape
    }


@dataclass(frozen=True)
class _Move:
    """How a run is moved. side: to which what is rectified or decided is moved, by `slack`. by: how
    far to move the results of operators that round, in a draw. narrow: those of 16 bits as well."""

    side: float = 0.0
    slack: Slack | None = None
    by: float = 0.0
    draw: int = 0
    narrow: bool = True


def _look(
    call: Callable[[Any], Any],
    inputs: Any,
    certain: Sequence[Certainty],
    move: _Move = _Move(),
) -> _Seen:
    """Look at the decisions of call(inputs)."""
    import torch

    side, slack, by = move.side, move.slack, move.by
    seen, numbers, began, room = _Seen(), itertools.count(), False, MOST_OF_ALL
    seen.narrow = any(map(_is_narrow, tensors_of(inputs)))
    made: set[int] = set()  # storages of results, which nobody else has

    def at(name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> Sequence[Any]:
        nonlocal began, room
        if not decision_runs.positions(name, args, kwargs):
            began = began or decisions.rectifies(name)
            return (
                decisions.move_rectified(name, args, side, slack.largest)
                if slack and side
                else args
            )
        number = next(numbers)
        certainty = certainties.of(certain, number)
        if certainty.kind == "exact":
            return args
        if not side:
            values, axis = decisions.decided(name, args, kwargs)
            if axis is None and sum(t.numel() for t in values) > MOST_OF_ONE:
                values = list(map(certainties.some, values))
                seen.some.add(number)
            room -= sum(t.numel() for t in values)
            if room >= 0:
                seen.decided[number] = [t.clone() for t in values], axis
                seen.names[number] = name
        equal = decisions.are_equal(name, args)
        if equal is not None and bool(equal.any()):
            seen.equal[number], seen.before = equal, began
        began = began or name not in decisions.CHOICES
        if not slack or not side or name in decisions.CHOICES:
            return args  # what is chosen stays a copy of its source
        relative = certainty.kind == "relative"
        allowed = certainty.allowed(slack)
        return decision_runs.move(name, args, kwargs, side, allowed, relative=relative)

    def after(name: str, args: Any, result: Any) -> None:
        given = tensors_of(args)
        there = set(map(decision_runs.storage, given))
        results = tensors_of(result)
        made.update({decision_runs.storage(t) for t in results} - there)
        for tensor in results:
            if tensor.is_floating_point() and tensor.element_size() >= 4:
                seen.coarsest = max(seen.coarsest, torch.finfo(tensor.dtype).eps)
            seen.narrow = seen.narrow or _is_narrow(tensor)
        if not by or decision_runs.copies(name):
            return
        for tensor in results:
            storage = decision_runs.storage(tensor)
            # what is written in place may be the model's own
            if storage not in made or (storage in there and not name.endswith("_")):
                continue
            if _is_narrow(tensor) and not move.narrow:
                continue
            # what is computed twice from the same numbers stays the same
            other = _apart(tensor, by, _seed(move.draw, name, _bits(tensor)))
            for one in given:  # so does what a factor of one leaves
                if one is not tensor and one.shape == tensor.shape and one.dtype == tensor.dtype:
                    other = torch.where(one == tensor, tensor, other)
            with contextlib.suppress(RuntimeError):  # of elements that share their place
                tensor.copy_(other)

    outputs = decision_runs.watch(call, inputs, at, after)
    seen.shapes = [t.shape for t in outputs]
    return seen


def _is_narrow(tensor: Any) -> bool:
    return bool(tensor.is_floating_point() and tensor.element_size() < 4)


def _seed(*parts: object) -> int:
    """Return a seed of 32 bits, all that a generator of a CPU takes."""
    return zlib.crc32(repr(parts).encode())


def _bits(tensor: Any) -> bytes:
    """Return the first of a tensor's numbers, as bytes."""
    import torch

    with contextlib.suppress(RuntimeError):  # of sparse ones
        first = tensor.detach().reshape(-1)[:64]
        wide = torch.complex128 if tensor.is_complex() else torch.float64
        return bytes(first.to("cpu", wide).numpy().tobytes())
    return b""


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


def _sizes(
    values: Sequence[Any],
    runs: Sequence[Sequence[Any]],
    axis: int | None,
    by: float,
    at: int,
    *,
    each: bool,
) -> Any:
    """Return the size of the terms behind values, from runs in which numbers were moved by up to
    `by`: of each value, or the median of those that have changed. at: which of several values is
    moved; to its sizes the usual one of the others is added."""
    import torch

    def changes(value: Any, others: Sequence[Any]) -> Any:
        found = [(other - value).abs().double() / (by / 2) for other in others]
        change = functools.reduce(torch.maximum, found)
        return torch.where(change.isfinite(), change, 0)

    found = [changes(value, [run[place] for run in runs]) for place, value in enumerate(values)]
    own = found.pop(at)
    middle = decisions.median(own)
    if not each:
        return functools.reduce(torch.add, map(decisions.median, found), middle)
    if axis is not None:
        return own
    sizes = torch.maximum(own, (BY_CHANCE * own).clamp(max=float(middle)))
    # nothing is behind what was made zero, by a mask say, but it may have been close to that
    sizes = torch.where((own == 0) & (values[at] == 0), middle, sizes)
    for other in found:  # sorted numbers, perhaps a line of them for each line of values
        line = -1 if 1 < other.dim() == own.dim() else None
        sizes = sizes + decisions.median(other, line)
    return sizes


def _off(certainty: Certainty, sizes: Any, values: Sequence[Any]) -> float:
    """Return what the framework's values are off by, relative to their sizes, in the middle of
    those that are not of single precision, if these are no few; 0 where the sizes of each are not
    known."""
    import torch

    for errors, value in zip(certainty.errors, values, strict=False):
        if value.shape != sizes.shape or not value.numel():
            continue
        size = certainties.some(sizes) + certainties.some(value).abs()
        if size.shape == errors.shape:
            found = torch.where(size > 0, errors.to(size) / size, 0)
            found = found[(found > certainties.LEAST_OFF) & (found <= certainties.MOST_OFF)]
            return float(found.median()) if found.numel() > FEW * errors.numel() else 0.0
    return 0.0
