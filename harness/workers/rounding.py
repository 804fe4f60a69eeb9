"""Where a task rounds to whole numbers, and what comes out where values near a tie go the other
way.

A quantizer gives round(x / scale). Who multiplies by the reciprocal of the scale is off by a
rounding or two before the framework's `round`, and so gets the other neighbour where x / scale lies
within as much of n + 1/2: honest, and off by a whole step. Which elements these are only the value
before `round` tells. So the reference is run in high precision again, with every argument of a
rounding operator moved down, and up, by what an honest one may be off by: outputs that differ then
are those that either neighbour is right for. Of values anywhere between two whole numbers that is a
share of twice what they are moved by. Nothing else gains anything: truncation, rounding half away
from zero, an index that is off by one are as wrong as before.

A product of what was rounded differs in a whole row then, and each subset of a row's ties gives it
another sum. Most of them are further from a tie than what a plain quotient is off by, so a part of
the distance is tried as well: there, rows have one tie or none.

Where arguments are exact, ties are decided by the operator's rule alone, and nothing is moved.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from . import operators

# what an argument is moved by, at the most, in steps: of arguments anywhere between two whole
# numbers a 32nd is near a tie then, and nobody who rounds otherwise is right with the others
MOST = 2.0**-6
# what they are moved by, as parts of the most that is honest
SIDES = (-1.0, 1.0, -0.125, 0.125)
# the coarsest that counts: who computes in 16 bits before rounding to 8 has the framework's result
# or is wrong
SINGLE = 2.0**-24
# those that divide by a scale themselves, their second argument
_SCALING = frozenset(
    [
        "fake_quantize_per_tensor_affine_cachemask",
        "fake_quantize_per_channel_affine_cachemask",
        "_fake_quantize_per_tensor_affine_cachemask_tensor_qparams",
    ]
)
_At = Callable[[str, Sequence[Any], dict[str, Any]], Sequence[Any]]


@dataclass(frozen=True)
class _Argument:
    """Of a rounding operator. exact: whether only exact operators came before it. divided: whether
    it is divided before it is rounded."""

    value: Any
    exact: bool
    divided: bool


def includes_rounding(names: Iterable[str]) -> bool:
    """Whether one of these operators, by full name, rounds to whole numbers."""
    return any(_is_rounding(name.split(".")[1]) for name in names if "." in name)


def unit(
    call: Callable[[Any], Any], inputs: Any, precise: Callable[[Any], Any], arguments: Any
) -> float:
    """The unit roundoff of what call(inputs) rounds to whole numbers, at most SINGLE; 0 where it
    rounds nothing that was rounded before. precise: the same in high precision, of `arguments`.

    An argument is exact where only exact operators came before, or where high precision gives the
    same; a dtype that is written into the reference leaves the former alone."""
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
    """What call(inputs) gives with what it rounds moved to all SIDES, in these dtypes; nothing
    without slack, which is relative to an argument and the root mean square of all of its
    tensor."""
    if not slack:
        return []
    sides = []
    for side in SIDES:
        outputs = _call_watched(call, inputs, partial(_move, slack=side * slack))
        sides.append([t.to(d).contiguous() for t, d in zip(outputs, dtypes, strict=True)])
    return sides


def _arguments(call: Callable[[Any], Any], inputs: Any) -> list[_Argument]:
    """Of all rounding operators of call(inputs), in order."""
    collected: list[_Argument] = []
    exact = True

    def at(name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> Sequence[Any]:
        nonlocal exact
        if _rounds(name, args):
            collected.append(_Argument(args[0].detach().clone(), exact, name in _SCALING))
        exact = exact and operators.is_exact([f"aten.{name.strip('_') or name}"])
        return args

    _call_watched(call, inputs, at)
    return collected


def _move(name: str, args: Sequence[Any], kwargs: dict[str, Any], slack: float) -> Sequence[Any]:
    """The operator's arguments, what it rounds moved by so much of it."""
    import torch

    if not _rounds(name, args):
        return args
    value = args[0]
    usable = torch.where(value.isfinite(), value, 0).abs()
    step = (
        float(torch.as_tensor(args[1]).abs().min())
        if name in _SCALING
        else 10.0 ** -kwargs.get("decimals", 0)
    )
    by = usable.add_(usable.square().mean().sqrt()).mul_(abs(slack)).clamp_(max=MOST * step)
    by = by if slack > 0 else by.neg_()
    return [value.add_(by) if name.endswith("_") else value + by, *args[1:]]


def _rounds(name: str, args: Sequence[Any]) -> bool:
    return _is_rounding(name) and args[0].is_floating_point()


def _is_rounding(name: str) -> bool:
    return name.strip("_") == "round" or name in _SCALING


def _call_watched(call: Callable[[Any], Any], inputs: Any, at: _At) -> Any:
    """call(inputs), each operator with the arguments that `at` makes of its own."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class RoundingMode(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch leaves __init_subclass__ untyped
        def __torch_dispatch__(
            self, func: Any, kinds: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            kwargs = kwargs or {}
            name = str(func).split(".")[1] if "." in str(func) else str(func)
            return func(*at(name, args, kwargs), **kwargs)

    with RoundingMode():  # type: ignore[no-untyped-call]
        return call(inputs)
