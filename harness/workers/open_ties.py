"""Outputs that are places of values in an input, where operators such as `topk` and `sort` may
choose any of several equal values. Draws in 16 bits are full of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ..wire import dtypes
from ..wire.nesting import tensors_of

# operators that return values and their places in the first argument, and where they take the axis
_AXIS = {"topk": 2, "sort": 1, "kthvalue": 2, "median": 1, "nanmedian": 1, "mode": 1}


@dataclass(frozen=True)
class _Choice:
    """What one operator chose. axis: counted from the first one."""

    source: Any
    places: Any
    axis: int


def find(
    call: Callable[[Any], list[Any]], inputs: Any, outputs: Sequence[Any]
) -> list[tuple[int, int, int]]:
    """Return (output, input, axis) for each output of call(inputs) that holds places along an axis
    of an input: all that an operator chose, or the first of them. Where it chose from a computed
    tensor, nobody but the reference knows which values are equal, and the output is left out."""
    choices = _choices(call, inputs)
    sources = tensors_of(inputs)
    found = []
    for number, output in enumerate(outputs):
        if dtypes.rounds(output.dtype):
            continue
        for choice in choices:
            source = next((n for n, t in enumerate(sources) if _equal(t, choice.source)), None)
            if source is not None and _begins(choice, output):
                found.append((number, source, choice.axis))
                break
    return found


def _choices(call: Callable[[Any], list[Any]], inputs: Any) -> list[_Choice]:
    from .watching_mode import WatchingMode, full_name

    choices: list[_Choice] = []

    class ChoiceMode(WatchingMode):  # type: ignore[no-untyped-call]  # torch leaves __init_subclass__ untyped
        def __torch_dispatch__(
            self, func: Any, kinds: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            kwargs = kwargs or {}
            result = self.run(func, args, kwargs)
            name = full_name(func).split(".")[1]
            if (
                name in _AXIS
                and isinstance(result, tuple)
                and args[0].dim()
                and not kwargs.get("stable")
            ):
                given = args[_AXIS[name]] if len(args) > _AXIS[name] else kwargs.get("dim", -1)
                choices.append(_Choice(args[0], result[1], given % args[0].dim()))
            return result

    with ChoiceMode():
        call(inputs)
    return choices


def _equal(one: Any, other: Any) -> bool:
    import torch

    return one.shape == other.shape and bool(torch.equal(one.double(), other.double()))


def _begins(choice: _Choice, output: Any) -> bool:
    """Return whether an output holds the places, or the first of them along the axis."""
    import torch

    places = choice.places
    if output.dim() == places.dim() == choice.source.dim():
        places = places.narrow(
            choice.axis, 0, min(output.shape[choice.axis], places.shape[choice.axis])
        )
    return places.shape == output.shape and bool(torch.equal(places, output.to(places.dtype)))
