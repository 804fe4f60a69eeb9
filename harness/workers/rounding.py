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
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from ..wire.nesting import tensors_of
from ..wire.slack import Slack
from . import certainties, decision_runs, decisions, tensor_relations, uncertainty
from .certainties import Certainty

# the moves that are tried, as fractions of the largest honest error
SIDES = uncertainty.SIDES
# with the certainty and the number of the decision
_Decide = Callable[[str, Sequence[Any], dict[str, Any], Certainty, int], Sequence[Any]]


def compute_alternatives(
    call: Callable[[Any], Any],
    inputs: Any,
    slack: Slack | None,
    dtypes: Sequence[Any],
    certain: Sequence[Certainty] = (),
    known: uncertainty.Uncertainty | None = None,
) -> list[list[Any]]:
    """Return the outputs of call(inputs), in these dtypes, with deciding values moved to each of
    SIDES, or as they are where the call does not work with these; [] without slack. slack: of the
    largest moves, relative to the value plus the size of the terms behind it, if these count.
    certain: of each decision, see certainties. known: what was measured of the call, if it was."""
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
        moved = measured.move(name, args, kwargs, number, certainty, side=side, slack=slack)
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
    slack: Slack,
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
        return measured.move(name, args, kwargs, number, certainty, side=side, slack=slack)

    differing = set()
    for side in SIDES:
        moved = _call_moved(call, inputs, partial(move, side=side), certain, measured.shapes)
        both = enumerate(zip(moved, outputs, strict=True))
        differing |= {n for n, (one, other) in both if not tensor_relations.same(one, other)}
    return sorted(differing)


def _call_deciding(
    call: Callable[[Any], Any], inputs: Any, decide: _Decide, certain: Sequence[Certainty]
) -> Any:
    """Run call(inputs) with the arguments of each decision that is not exact replaced by those that
    `decide` returns."""
    numbers = itertools.count()

    def at(name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> Sequence[Any]:
        if decision_runs.positions(name, args, kwargs):
            number = next(numbers)
            certainty = certainties.of(certain, number)
            if certainty.kind != "exact":
                return decide(name, args, kwargs, certainty, number)
        return args

    return decision_runs.watch(call, inputs, at)
