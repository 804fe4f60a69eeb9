"""Operators whose results jump where their arguments change by a rounding error, besides those that
round to whole numbers: comparisons, and places of values in order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

# which arguments are compared
COMPARISONS = dict.fromkeys(("gt", "lt", "ge", "le", "searchsorted", "bucketize"), (0, 1))
# where operators that return places of values in their first argument take the axis; None: all
CHOICES = {
    "topk": (2, -1), "sort": (1, -1), "argsort": (1, -1), "kthvalue": (2, -1), "median": (1, None),
    "max": (1, None), "min": (1, None), "argmax": (1, None), "argmin": (1, None),
}  # fmt: skip

ORDERS = {"topk", "sort", "argsort"}


def are_made(names: Iterable[str], *, discrete: bool) -> bool:
    """Return whether one of these operators, by full name, decides. discrete: an output holds whole
    numbers or truth values; without any, only orders of values count, since comparisons and maxima
    mostly choose between values that are equal where they are close."""
    bases = {name.split(".")[1] for name in names if "." in name}
    return bool(bases & ({*CHOICES, *COMPARISONS} if discrete else ORDERS))


def compared(name: str, args: Sequence[Any]) -> list[int]:
    """Return the positions of an operator's floating tensors on which its decision depends."""
    import torch

    return [
        at
        for at in COMPARISONS.get(name, (0,) if name in CHOICES else ())
        if at < len(args) and isinstance(args[at], torch.Tensor) and args[at].is_floating_point()
    ]


def is_open(name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> bool:
    """Return whether an operator orders values of which some are equal, so that it may choose
    any of these."""
    if name not in CHOICES or not compared(name, args):
        return False
    value, axis = args[0], _axis(name, args, kwargs)
    ordered = (value.reshape(-1) if axis is None else value.movedim(axis, -1)).sort(-1).values
    kept = args[1] if name == "topk" else 1 if name in ("max", "argmax") else None
    chosen = ordered if kept is None else ordered[..., -(kept + 1) :]
    chosen = ordered[..., :2] if name in ("min", "argmin") else chosen
    return bool((chosen[..., 1:] == chosen[..., :-1]).any())


def _axis(name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> int | None:
    position, usual = CHOICES[name]
    axis: int | None = args[position] if len(args) > position else kwargs.get("dim", usual)
    return axis


def move(name: str, args: Sequence[Any], kwargs: dict[str, Any], side: float, slack: float) -> Any:
    """Return the first value on which the operator decides, moved by `slack` at most, relative to
    the value plus the root mean square of its tensor. side: of a comparison up or down. Of values
    in order, those that are closer change places: by 1 and -1 the first or the last ones come
    first, by others each second one does."""
    import torch

    at = compared(name, args)[0]
    value = args[at]
    usable = torch.where(value.isfinite(), value, 0).abs()
    by = usable.add_(usable.square().mean().sqrt()).mul_(slack)
    if name in COMPARISONS:
        return value + side * by
    axis = _axis(name, args, kwargs)
    shape = value.shape if axis is None else [value.shape[axis]]
    places = torch.arange(max(1, value.numel() if axis is None else shape[0]), device=value.device)
    if abs(side) == 1:
        weights = places.to(value.dtype) / len(places)
    else:
        weights = (places % 2).to(value.dtype)
    weights = weights if side > 0 else -weights
    if axis is None:
        return value + by * weights.view(value.shape)
    along = [-1 if number == axis % value.dim() else 1 for number in range(value.dim())]
    return value + by * weights.view(along)
