"""Tasks that round to whole numbers, compare computed values or choose among them: which outputs
are also right when values near a tie fall on the other side.

A quantizer computes round(x / scale). A kernel that multiplies by the reciprocal of the scale has a
rounding error or two before `round`. Where x / scale lies that close to n + 1/2, it gets the other
neighbour: an honest result that is a whole step off. Only the value before `round` tells which
elements these are. So the reference is run again in high precision, with every argument of a
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

Where arguments are exact, the operator's rule alone decides ties, and nothing is moved.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from ..wire.nesting import tensors_of
from . import decisions, operators

# the most that an argument is moved, in steps: then 1 in 32 evenly spread arguments is near a tie,
# and a kernel with another rounding rule is still wrong in the rest
MOST = 2.0**-6
# the moves that are tried, as fractions of the largest honest error
SIDES = (-1.0, 1.0, -0.125, 0.125)
# the coarsest unit roundoff that counts: a kernel that computes in 16 bits before rounding to 8
# must get the framework's result
SINGLE = 2.0**-24
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
_At = Callable[[str, Sequence[Any], dict[str, Any]], Sequence[Any]]


@dataclass(frozen=True)
class _Argument:
    """An argument that an operator rounds or decides on. exact: only exact operators came before
    it. divided: it is divided before it is rounded."""

    value: Any
    exact: bool
    divided: bool


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
    SINGLE; 0 where these values are exact. precise, arguments: the same call in high precision.

    A value is exact where only exact operators came before, or where high precision gives the same
    value; the second test does not apply if the reference fixes a dtype."""
    import torch

    roundoff = 0.0
    for working, exact in zip(
        _arguments(call, inputs), _arguments(precise, arguments), strict=False
    ):
        one, other = working.value, exact.value
        equal = one.dtype != other.dtype and bool((one.to(other.dtype) == other).all())
        if working.divided or not (working.exact or equal):
            roundoff = max(roundoff, min(torch.finfo(one.dtype).eps / 2, SINGLE))
    return roundoff


def compute_alternatives(
    call: Callable[[Any], Any], inputs: Any, slack: float, dtypes: Sequence[Any]
) -> list[list[Any]]:
    """Return the outputs of call(inputs), in these dtypes, with deciding values moved to each of
    SIDES; [] without slack. slack: the largest move, relative to the value plus the root mean
    square of its tensor."""
    if not slack:
        return []
    sides = []
    for side in SIDES:
        outputs = _call_watched(call, inputs, partial(_move, side=side, slack=slack))
        sides.append([t.to(d).contiguous() for t, d in zip(outputs, dtypes, strict=True)])
    return sides


def leaves_order_open(call: Callable[[Any], Any], inputs: Any) -> bool:
    """Return whether call(inputs), in high precision, orders computed values of which some are
    equal, or missing although no input is."""
    found, exact = False, True
    given = [t for t in tensors_of(inputs) if t.is_floating_point()]
    whole = not any(bool(t.isnan().any()) for t in given)

    def at(name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> Sequence[Any]:
        nonlocal found, exact
        if not exact and not found:
            found = decisions.is_open(name, args, kwargs) or (
                whole and decisions.orders_missing(name, args, kwargs)
            )
        exact = exact and _keeps_exact(name)
        return args

    _call_watched(call, inputs, at)
    return found


def _arguments(call: Callable[[Any], Any], inputs: Any) -> list[_Argument]:
    """Collect what the operators of call(inputs) round or decide on, in order."""
    collected: list[_Argument] = []
    exact = True

    def at(name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> Sequence[Any]:
        nonlocal exact
        if _rounds(name, args):
            collected.append(_Argument(args[0].detach().clone(), exact, name in _SCALING))
        collected.extend(
            _Argument(_some(args[position]), exact, False)
            for position in decisions.compared(name, args, kwargs)
        )
        exact = exact and _keeps_exact(name)
        return args

    _call_watched(call, inputs, at)
    return collected


def _some(value: Any) -> Any:
    """Return a copy of at most KEPT_VALUES of the values."""
    flat = value.detach().reshape(-1)
    return flat[:: max(1, -(-len(flat) // KEPT_VALUES))].clone()


def _move(
    name: str, args: Sequence[Any], kwargs: dict[str, Any], side: float, slack: float
) -> Sequence[Any]:
    """Return the operator's arguments with the value on which it decides moved to a side, by
    `slack` at most."""
    import torch

    if positions := decisions.compared(name, args, kwargs):
        moved = list(args)
        moved[positions[0]] = decisions.move(name, args, kwargs, side, slack)
        return moved
    if not _rounds(name, args):
        return args
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
    return operators.is_exact([f"aten.{name.strip('_') or name}"])


def _rounds(name: str, args: Sequence[Any]) -> bool:
    return _is_rounding(name) and args[0].is_floating_point()


def _is_rounding(name: str) -> bool:
    return name.strip("_") == "round" or name in _SCALING


def _call_watched(call: Callable[[Any], Any], inputs: Any, at: _At) -> Any:
    """Run call(inputs) with each operator's arguments replaced by those that `at` returns."""
    from .watching_mode import WatchingMode, full_name

    class RoundingMode(WatchingMode):  # type: ignore[no-untyped-call]  # torch leaves __init_subclass__ untyped
        def __torch_dispatch__(
            self, func: Any, kinds: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            kwargs = kwargs or {}
            name = full_name(func).split(".")[1]
            return self.run(func, at(name, args, kwargs), kwargs)

    with RoundingMode():
        return call(inputs)
