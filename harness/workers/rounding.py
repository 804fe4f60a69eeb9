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

How far values may be off in an order of operations is measured (see `uncertainty`), so that a
number beside them that is far larger, such as a fill, does not count.

If rounded values enter a product, a whole row of it changes, and each subset of the row's ties
gives a different sum. Most of these values are further from a tie than the error of a plain
quotient, so a fraction of the move is tried as well: with it, rows have one tie or none.

Comparisons with computed values, and places of computed values in order, are treated alike: a
softmax that has saturated leaves equal values to a router in single precision that high precision
tells apart.

Where arguments are exact, the operator's rule alone decides ties, and they are not moved, whatever
else the task decides on. Products are moved relative to themselves, and two sides of a comparison
that are equal whatever the inputs are (a rectified number and zero, the largest number and itself)
are not moved apart, unless the number that was rectified is itself that close to zero.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from ..wire.nesting import tensors_of
from . import decision_runs, decisions, tensor_relations, uncertainty

# the moves that are tried, as fractions of the largest honest error
SIDES = uncertainty.SIDES
# the coarsest unit roundoff that counts: a kernel that computes in 16 bits before rounding to 8
# must get the framework's result
SINGLE = decisions.SINGLE
# values of a decision that are kept, to be compared with those in high precision
KEPT_VALUES = 1 << 20
# operators whose errors are small beside each of their results
_FACTORS = frozenset(["mul", "div", "reciprocal", "sqrt", "rsqrt", "square", "pow"])
# with the certainty and the number of the decision
_Decide = Callable[[str, Sequence[Any], dict[str, Any], Any, int], Sequence[Any]]


Certainty = uncertainty.Certainty


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
        decision_runs.is_rounding(name.split(".")[1]) for name in names if "." in name
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
    known: uncertainty.Uncertainty | None = None,
) -> list[list[Any]]:
    """Return the outputs of call(inputs), in these dtypes, with deciding values moved to each of
    SIDES, or as they are where the call does not work with these; [] without slack. slack: the
    largest move, relative to the value plus the usual size in its tensor, if that counts. certain:
    of each decision, see certainties; "uncertain" for those beyond. known: what was measured of the
    call, if it was."""
    if not slack:
        return []
    measured = known or uncertainty.measure(call, inputs, slack, certain)

    def move(
        name: str,
        args: Sequence[Any],
        kwargs: dict[str, Any],
        certainty: Certainty,
        number: int,
        *,
        side: float,
    ) -> Sequence[Any]:
        relative, usual = certainty == "relative", measured.usual.get(number)
        moved = decision_runs.move(name, args, kwargs, side, slack, relative=relative, usual=usual)
        return decisions.keep_equal(name, args, kwargs, moved, measured.equal(side).get(number))

    sides = []
    for side in SIDES:
        outputs = _call_moved(call, inputs, partial(move, side=side), certain, measured.shapes)
        sides.append([t.to(d).contiguous() for t, d in zip(outputs, dtypes, strict=True)])
    return sides


def _call_moved(
    call: Callable[[Any], Any],
    inputs: Any,
    decide: _Decide,
    certain: Sequence[Certainty],
    shapes: Sequence[Any],
) -> list[Any]:
    """Return the outputs of call(inputs) with moved decisions; those of the call itself where their
    shapes follow from decisions, or it raises an error."""
    import torch

    try:
        outputs: list[Any] = _call_deciding(call, inputs, decide, certain)
    except torch.OutOfMemoryError:
        raise
    except Exception:  # the task's own code, which accepts its own decisions
        outputs = []
    return outputs if [t.shape for t in outputs] == list(shapes) else list(call(inputs))


def outputs_left_open(
    call: Callable[[Any], Any],
    inputs: Any,
    slack: float,
    outputs: Sequence[Any],
    certain: Sequence[Certainty],
    known: uncertainty.Uncertainty | None = None,
) -> list[int]:
    """Return which outputs of call(inputs), in high precision, depend on the order of computed
    values of which some are equal, or missing although no input is. outputs: those of the call.
    slack, certain, known: see compute_alternatives."""
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
    if not found:
        return []
    measured = known or uncertainty.measure(call, inputs, slack, certain)

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
        relative, usual = certainty == "relative", measured.usual.get(number)
        return decision_runs.move(name, args, kwargs, side, slack, relative=relative, usual=usual)

    differing = set()
    for side in SIDES:
        moved = _call_moved(call, inputs, partial(move, side=side), certain, measured.shapes)
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
        found = [
            numbers,
            *(computed.get(decision_runs.storage(t), (True, True)) for t in tensors_of(values)),
        ]
        return all(exact for exact, _ in found), all(factors for _, factors in found)

    def at(name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> Sequence[Any]:
        if positions := decision_runs.positions(name, args, kwargs):
            exact, factors = status([args[position] for position in positions])
            values = [_some(args[position]) for position in positions]
            orders = name in decisions.CHOICES
            scales, read = name in decision_runs.SCALING, not numbers[0]
            collected.append(_Decision(values, exact, factors, scales, orders, read))
        return args

    def after(name: str, args: Any, result: Any) -> None:
        nonlocal numbers
        exact, factors = status(args)
        if name == "_local_scalar_dense":
            numbers = exact, factors
        exact &= decision_runs.keeps_exact(name)
        factors &= decision_runs.keeps_exact(name) or name.strip("_") in _FACTORS
        there = {decision_runs.storage(t) for t in tensors_of(args)}
        for storage in {decision_runs.storage(t) for t in tensors_of(result)}:
            before = computed.get(storage, (True, True)) if storage in there else (True, True)
            computed[storage] = before[0] and exact, before[1] and factors

    decision_runs.watch(call, inputs, at, after)
    return collected


def _call_deciding(
    call: Callable[[Any], Any], inputs: Any, decide: _Decide, certain: Sequence[Certainty]
) -> Any:
    """Run call(inputs) with the arguments of each decision that is not exact replaced by those that
    `decide` returns."""
    numbers = itertools.count()

    def at(name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> Sequence[Any]:
        if decision_runs.positions(name, args, kwargs):
            number = next(numbers)
            certainty = certain[number] if number < len(certain) else "uncertain"
            if certainty != "exact":
                return decide(name, args, kwargs, certainty, number)
        return args

    return decision_runs.watch(call, inputs, at)


def _some(value: Any) -> Any:
    """Return a copy of at most KEPT_VALUES of the values."""
    flat = value.detach().reshape(-1)
    return flat[:: max(1, -(-len(flat) // KEPT_VALUES))].clone()
