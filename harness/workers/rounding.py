"""Tasks that round to whole numbers, compare computed values or choose among them: which outputs
are also right when values near a tie fall on the other side.

A quantizer computes round(x / scale). A kernel that multiplies by the reciprocal of the scale has a
rounding error or two before `round`. Where x / scale lies that close to n + 1/2, it gets the other
neighbour: an honest result that is a whole step off. Only the value before `round` tells which
elements these are. So the reference is run again in high precision, with the argument of every
rounding operator moved down, and up, by the largest honest error. For outputs that then differ,
either neighbour is right. Of values spread evenly between whole numbers, this is a share of twice
the move. No other error is excused: truncation, rounding half away from zero and an index that is
off by one stay as wrong as before.

If rounded values enter a product, a whole row of it changes, and each subset of the row's ties
gives a different sum. Most of these values are further from a tie than the error of a plain
quotient, so a fraction of the move is tried as well: with it, rows have one tie or none.

Comparisons with computed values, and places of computed values in order, are treated alike: a
softmax that has saturated leaves equal values to a router in single precision that high precision
tells apart.

Where arguments are exact, the operator's rule alone decides ties, and they are not moved, whatever
else the task decides on. Products are moved relative to themselves, and two sides of a comparison
that are zero whatever the inputs are (a rectified number and zero) are not moved apart, unless the
number that was rectified is itself that close to zero.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from ..wire.nesting import tensors_of
from . import decisions, operators, second_results, tensor_relations

# the most that an argument is moved, in steps: then 1 in 32 evenly spread arguments is near a tie,
# and a kernel with another rounding rule is still wrong in the rest
MOST = 2.0**-6
# the moves that are tried, as fractions of the largest honest error
SIDES = (-1.0, 1.0, -0.125, 0.125, -0.015625, 0.015625)
# the coarsest unit roundoff that counts: a kernel that computes in 16 bits before rounding to 8
# must get the framework's result
SINGLE = decisions.SINGLE
# operators that divide by a scale themselves, their second argument
_SCALING = frozenset(
    [
        "fake_quantize_per_tensor_affine_cachemask",
        "fake_quantize_per_channel_affine_cachemask",
        "_fake_quantize_per_tensor_affine_cachemask_tensor_qparams",
    ]
)
# values of a decision that are kept, to be compared with those in high precision
KEPT_VALUES = 1 << 20
# operators whose errors are small beside each of their results
_FACTORS = frozenset(["mul", "div", "reciprocal", "sqrt", "rsqrt", "square", "pow"])
_At = Callable[[str, Sequence[Any], dict[str, Any]], Sequence[Any]]
# with the certainty and the number of the decision
_Decide = Callable[[str, Sequence[Any], dict[str, Any], Any, int], Sequence[Any]]


Certainty = Literal["exact", "relative", "uncertain"]
"""How certain the values are on which an operator decides: without any error, with errors that are
small beside each of them (products), or with errors that are small beside their usual size."""


@dataclass(frozen=True)
class _Decision:
    """What an operator rounds or decides on. exact: only exact operators computed it from inputs.
    factors: only those and products. divided: it is divided before it is rounded. orders: it
    returns places of its values in order. read: a number that the reference has read of computed
    values may enter."""

    values: Sequence[Any]
    exact: bool
    factors: bool
    divided: bool
    orders: bool
    read: bool = False

    def certainty(self, other: _Decision) -> Certainty:
        """Return how certain the values are. other: the same decision in high precision.

        Floating values tell nothing where the reference fixes their dtype, but a product of exact
        values that is zero has no error. Values in order that are equal may be put in any order
        even where they have no error, unless they are inputs."""

        if self.divided or self.read:
            return "uncertain"
        if self.exact:
            return "exact"
        if self.orders or len(self.values) != len(other.values):
            return "uncertain"
        found: Certainty = "exact"
        for one, precise in zip(self.values, other.values, strict=True):
            if one.shape != precise.shape:
                return "uncertain"
            fixed = one.dtype == precise.dtype and one.is_floating_point()
            if fixed or not tensor_relations.same(one.to(precise.dtype), precise):
                found = "relative"
        return found if found == "exact" or self.factors else "uncertain"


def decides(names: Iterable[str], *, discrete: bool) -> bool:
    """Return whether one of these operators, by full name, rounds to whole numbers or decides.
    discrete: see decisions.are_made."""
    names = list(names)
    return decisions.are_made(names, discrete=discrete) or any(
        _is_rounding(name.split(".")[1]) for name in names if "." in name
    )


def unit(
    call: Callable[[Any], Any], inputs: Any, precise: Callable[[Any], Any], arguments: Any
) -> float:
    """Return the unit roundoff of the values that call(inputs) rounds or decides on, at most
    SINGLE; 0 where these values are exact. precise, arguments: the same call in high precision."""
    import torch

    made = _decisions(call, inputs)
    return max(
        (
            min(torch.finfo(value.dtype).eps / 2, SINGLE)
            for decision, certainty in zip(
                made, certainties(call, inputs, precise, arguments, made), strict=True
            )
            if certainty != "exact"
            for value in decision.values
        ),
        default=0.0,
    )


def certainties(
    call: Callable[[Any], Any],
    inputs: Any,
    precise: Callable[[Any], Any],
    arguments: Any,
    made: Sequence[_Decision] | None = None,
) -> list[Certainty]:
    """Return how certain each decision of call(inputs) is, in order. precise, arguments: the same
    call in high precision. made: the decisions of call(inputs), if they are known."""
    made = _decisions(call, inputs) if made is None else made
    others = _decisions(precise, arguments)
    if len(made) != len(others):
        return ["uncertain"] * len(made)
    return [one.certainty(other) for one, other in zip(made, others, strict=True)]


def compute_alternatives(
    call: Callable[[Any], Any],
    inputs: Any,
    slack: float,
    dtypes: Sequence[Any],
    certain: Sequence[Certainty] = (),
) -> list[list[Any]]:
    """Return the outputs of call(inputs), in these dtypes, with deciding values moved to each of
    SIDES; [] without slack. slack: the largest move, relative to the value plus the usual size in
    its tensor, if that counts. certain: of each decision, see certainties; "uncertain" for those
    beyond."""
    if not slack:
        return []
    zeros = _zeros_by_structure(call, inputs, slack, certain)

    def move(
        name: str,
        args: Sequence[Any],
        kwargs: dict[str, Any],
        certainty: Certainty,
        number: int,
        *,
        side: float,
    ) -> Sequence[Any]:
        moved = _move(name, args, kwargs, certainty, side=side, slack=slack)
        return decisions.keep_equal(name, args, kwargs, moved, zeros[side].get(number))

    sides = []
    for side in SIDES:
        outputs = _call_deciding(call, inputs, partial(move, side=side), certain)
        sides.append([t.to(d).contiguous() for t, d in zip(outputs, dtypes, strict=True)])
    return sides


def outputs_left_open(
    call: Callable[[Any], Any],
    inputs: Any,
    slack: float,
    outputs: Sequence[Any],
    certain: Sequence[Certainty],
) -> list[int]:
    """Return which outputs of call(inputs), in high precision, depend on the order of computed
    values of which some are equal, or missing although no input is. outputs: those of the call.
    slack, certain: see compute_alternatives."""
    given = [t for t in tensors_of(inputs) if t.is_floating_point()]
    whole = not any(bool(t.isnan().any()) for t in given)
    found, missing = set(), False

    def look(
        name: str, args: Sequence[Any], kwargs: dict[str, Any], certainty: Certainty, number: int
    ) -> Sequence[Any]:
        nonlocal missing
        if decisions.is_open(name, args, kwargs):
            found.add(number)
        missing = missing or (whole and decisions.orders_missing(name, args, kwargs))
        return args

    _call_deciding(call, inputs, look, certain)
    if missing:
        return list(range(len(outputs)))

    def move(
        name: str,
        args: Sequence[Any],
        kwargs: dict[str, Any],
        certainty: Certainty,
        number: int,
        *,
        side: float,
    ) -> Sequence[Any]:
        if number not in found:
            return args
        return _move(name, args, kwargs, certainty, side=side, slack=slack)

    differing = set()
    for side in SIDES if found else ():
        moved = _call_deciding(call, inputs, partial(move, side=side), certain)
        both = enumerate(zip(moved, outputs, strict=True))
        differing |= {n for n, (one, other) in both if not tensor_relations.same(one, other)}
    return sorted(differing)


def _decisions(call: Callable[[Any], Any], inputs: Any) -> list[_Decision]:
    """Collect what the operators of call(inputs) round or decide on, in order."""
    collected: list[_Decision] = []
    # by storage: whether only exact operators computed it, and whether only those and products did;
    # a storage that none computed holds an input, or is written when its place is used again
    computed: dict[int, tuple[bool, bool]] = {0: (False, False)}
    numbers = (True, True)  # the same of those that the reference has read, and may use anywhere

    def status(values: Any) -> tuple[bool, bool]:
        found = [numbers, *(computed.get(_storage(t), (True, True)) for t in tensors_of(values))]
        return all(exact for exact, _ in found), all(factors for _, factors in found)

    def at(name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> Sequence[Any]:
        if positions := _deciding(name, args, kwargs):
            exact, factors = status([args[position] for position in positions])
            values = [_some(args[position]) for position in positions]
            orders = name in decisions.CHOICES
            scales, read = name in _SCALING, not numbers[0]
            collected.append(_Decision(values, exact, factors, scales, orders, read))
        return args

    def after(name: str, args: Any, result: Any) -> None:
        nonlocal numbers
        exact, factors = status(args)
        if name == "_local_scalar_dense":
            numbers = exact, factors
        exact &= _keeps_exact(name)
        factors &= _keeps_exact(name) or name.strip("_") in _FACTORS
        there = {_storage(t) for t in tensors_of(args)}
        for storage in {_storage(t) for t in tensors_of(result)}:
            before = computed.get(storage, (True, True)) if storage in there else (True, True)
            computed[storage] = before[0] and exact, before[1] and factors

    _call_watched(call, inputs, at, after)
    return collected


def _zeros_by_structure(
    call: Callable[[Any], Any], inputs: Any, slack: float, certain: Sequence[Certainty]
) -> dict[float, dict[int, Any]]:
    """Return for each of SIDES, and comparisons of call(inputs) by number, where both sides are
    zero also when each input is moved by another amount, and what is rectified or decided before to
    that side: rectified numbers that are clearly negative, sums over padding. There every right
    order of operations gives zero. A difference that cancels does not stay zero."""
    plain, before = _zeros(call, inputs, certain)
    if not plain:
        return {side: {} for side in SIDES}
    moved = second_results.moved(inputs, 0)

    def kept(side: float) -> dict[int, Any]:
        try:
            return _zeros(call, moved, certain, side, slack)[0]
        except Exception:  # the task's own code, which accepts the inputs themselves
            return {}

    alike = kept(0.0)
    found = {side: kept(side) or alike for side in (SIDES[:4] if before else ())}
    return {
        side: {
            number: where & still[number]
            for number, where in plain.items()
            if number in still and still[number].shape == where.shape
        }
        for side in SIDES
        for still in [found.get(math.copysign(max(0.125, abs(side)), side), alike)]
    }


def _zeros(
    call: Callable[[Any], Any],
    inputs: Any,
    certain: Sequence[Certainty],
    side: float = 0.0,
    slack: float = 0.0,
) -> tuple[dict[int, Any], bool]:
    """Return for comparisons of call(inputs), by number, where both sides are zero, if anywhere,
    and whether something is rectified or decided before the last of them. side: to which such
    values are moved."""
    numbers, found, began, before = itertools.count(), dict[int, Any](), False, False

    def at(name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> Sequence[Any]:
        nonlocal began, before
        if not _deciding(name, args, kwargs):
            began = began or decisions.rectifies(name)
            return decisions.move_rectified(name, args, side, slack) if side else args
        number, where = next(numbers), decisions.are_zero(name, args)
        if where is not None and bool(where.any()):
            found[number], before = where, began
        certainty = certain[number] if number < len(certain) else "uncertain"
        if certainty == "exact":
            return args
        began = True
        return _move(name, args, kwargs, certainty, side=side, slack=slack) if side else args

    _call_watched(call, inputs, at)
    return found, before


def _storage(tensor: Any) -> int:
    """Return a number for the storage of a tensor, 0 if it has none (sparse tensors)."""
    try:
        return int(tensor.untyped_storage()._cdata)
    except RuntimeError:
        return 0


def _call_deciding(
    call: Callable[[Any], Any], inputs: Any, decide: _Decide, certain: Sequence[Certainty]
) -> Any:
    """Run call(inputs) with the arguments of each decision that is not exact replaced by those that
    `decide` returns."""
    numbers = itertools.count()

    def at(name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> Sequence[Any]:
        if _deciding(name, args, kwargs):
            number = next(numbers)
            certainty = certain[number] if number < len(certain) else "uncertain"
            if certainty != "exact":
                return decide(name, args, kwargs, certainty, number)
        return args

    return _call_watched(call, inputs, at)


def _deciding(name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> list[int]:
    """Return the positions of the arguments that an operator rounds or decides on."""
    return [0] if _rounds(name, args) else decisions.compared(name, args, kwargs)


def _some(value: Any) -> Any:
    """Return a copy of at most KEPT_VALUES of the values."""
    flat = value.detach().reshape(-1)
    return flat[:: max(1, -(-len(flat) // KEPT_VALUES))].clone()


def _move(
    name: str,
    args: Sequence[Any],
    kwargs: dict[str, Any],
    certainty: Certainty,
    *,
    side: float,
    slack: float,
) -> Sequence[Any]:
    """Return a deciding operator's arguments with the value on which it decides moved to a side, by
    `slack` at most."""
    import torch

    if positions := decisions.compared(name, args, kwargs):
        moved = list(args)
        relative = certainty == "relative"
        moved[positions[0]] = decisions.move(name, args, kwargs, side, slack, relative=relative)
        return moved
    value = args[0]
    usable = torch.where(value.isfinite(), value, 0).abs()
    step = (
        float(torch.as_tensor(args[1]).abs().min())
        if name in _SCALING
        else 10.0 ** -kwargs.get("decimals", 0)
    )
    by = usable.add_(usable.square().mean().sqrt()).mul_(abs(side) * slack).clamp_(max=MOST * step)
    by = by if side > 0 else by.neg_()
    return [value.add_(by) if name.endswith("_") else value + by, *args[1:]]


def _keeps_exact(name: str) -> bool:
    """Return whether an operator, or the one that it does in place, is exact."""
    return any(operators.is_exact([f"aten.{each}"]) for each in (name, name.strip("_") or name))


def _rounds(name: str, args: Sequence[Any]) -> bool:
    return _is_rounding(name) and args[0].is_floating_point()


def _is_rounding(name: str) -> bool:
    return name.strip("_") == "round" or name in _SCALING


def _call_watched(
    call: Callable[[Any], Any],
    inputs: Any,
    at: _At,
    after: Callable[[str, Any, Any], None] | None = None,
) -> Any:
    """Run call(inputs) with each operator's arguments replaced by those that `at` returns. after:
    is told the name, all arguments and the result of each."""
    from .watching_mode import WatchingMode, full_name

    class RoundingMode(WatchingMode):  # type: ignore[no-untyped-call]  # torch leaves __init_subclass__ untyped
        def __torch_dispatch__(
            self, func: Any, kinds: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            kwargs = kwargs or {}
            name = full_name(func).split(".")[1]
            result = self.run(func, at(name, args, kwargs), kwargs)
            if after is not None:
                after(name, [*args, *kwargs.values()], result)
            return result

    with RoundingMode():
        return call(inputs)
