"""Operators whose results jump where their arguments change by a rounding error, besides those that
round to whole numbers: comparisons, and places of values in order."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

# which arguments are compared
COMPARISONS = dict.fromkeys(("gt", "lt", "ge", "le", "searchsorted", "bucketize"), (0, 1))
_ELEMENTWISE = {"gt", "lt", "ge", "le"}
# where operators that return places of values in their first argument take the axis, and its usual
# value; None: all values at once
CHOICES = {
    "topk": (2, -1), "sort": (1, -1), "argsort": (1, -1), "kthvalue": (2, -1), "median": (1, None),
    "max": (1, None), "min": (1, None), "argmax": (1, None), "argmin": (1, None),
}  # fmt: skip
ORDERS = {"topk", "sort", "argsort"}
_WITH_AXIS = {"max", "min", "median"}  # without one they return no place
_OPEN = {*ORDERS, "argmax", "argmin"}  # of the others, mostly the values are used
# what keeps numbers on one side of another, or makes small ones zero
_OF_TWO = ("maximum", "minimum", "fmax", "fmin")
_RECTIFIERS = frozenset([
    "relu", "relu6", "clamp", "clamp_min", "clamp_max", "threshold", "hardtanh", "hardsigmoid",
    "hardswish", "softshrink", "hardshrink", *_OF_TWO,
])  # fmt: skip
# by smaller sides only values that single precision holds for equal are together
LEAST_GROUPING = 0.125
SINGLE = 2.0**-24  # its unit roundoff
# the least size of terms as a part of what is usual in their line, by chance, and how often what is
# less is looked at by itself
LEVEL, LEVELS = 2.0**-8, 3


def are_made(names: Iterable[str], *, discrete: bool) -> bool:
    """Return whether one of these operators, by full name, decides. discrete: an output holds whole
    numbers or truth values; without any, only orders of values count, since comparisons and maxima
    mostly choose between values that are equal where they are close."""
    bases = {name.split(".")[1] for name in names if "." in name}
    return bool(bases & ({*CHOICES, *COMPARISONS} if discrete else ORDERS))


def compared(name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> list[int]:
    """Return the positions of an operator's floating tensors on which its decision depends."""
    import torch

    def is_floating(at: int) -> bool:
        return (
            at < len(args) and isinstance(args[at], torch.Tensor) and args[at].is_floating_point()
        )

    if name in CHOICES:
        chooses = is_floating(0) and args[0].dim() and args[0].numel()
        no_place = name in _WITH_AXIS and not isinstance(_axis(name, args, kwargs), int)
        return [0] if chooses and not no_place else []
    return [at for at in COMPARISONS.get(name, ()) if is_floating(at)]


def moved(name: str, positions: Sequence[int]) -> int:
    """Return which of the arguments that are compared is moved: the values, of which each has a
    place among sorted ones, or the first one."""
    return positions[-1] if name == "searchsorted" else positions[0]


def is_open(name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> bool:
    """Return whether an operator that returns places orders equal values, so that it may choose any
    of these."""
    if name not in _OPEN or not compared(name, args, kwargs):
        return False
    value, axis = args[0], _axis(name, args, kwargs)
    lines = value.reshape(-1) if axis is None else value.movedim(axis, -1)
    if name in ("sort", "argsort"):
        chosen = lines.sort(-1).values
    else:
        count, largest = 1, name == "argmax"
        if name == "topk":
            count, largest = args[1], args[3] if len(args) > 3 else kwargs.get("largest", True)
        # what is chosen, and the first value that is not
        chosen = lines.topk(min(count + 1, lines.shape[-1]), -1, largest=largest).values
    return bool((chosen[..., 1:] == chosen[..., :-1]).any())


def orders_missing(name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> bool:
    """Return whether an operator that returns places finds NaN among its values. Where that came
    from a logarithm of a negative number, say, another form of the same sum has another number."""
    return name in CHOICES and any(
        bool(args[at].isnan().any()) for at in compared(name, args, kwargs)
    )


def decided(name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[list[Any], int | None]:
    """Return what an operator's decision depends on: of a comparison of two numbers their
    difference. And the axis along which it chooses places, None for another one and for all
    values."""
    import torch

    if name in _ELEMENTWISE:
        dtype = args[compared(name, args, kwargs)[0]].dtype
        one, other = (t.to(dtype) if isinstance(t, torch.Tensor) else float(t) for t in args[:2])
        return [one - other], None
    at = compared(name, args, kwargs) or [0]
    axis = _axis(name, args, kwargs) if name in CHOICES else None
    return [args[each] for each in at], axis


def smaller(size: Any, usual: Any) -> Any:
    """Return the smaller one of a size and a usual one, if that is known for as many lines."""
    import torch

    if usual is None or (usual.dim() and usual.shape != size.shape):
        return size
    return torch.minimum(size, usual.to(size.dtype))


def move(
    name: str,
    args: Sequence[Any],
    kwargs: dict[str, Any],
    side: float,
    slack: float,
    *,
    relative: bool = False,
    sizes: Any = None,
) -> Any:
    """Return the first value on which the operator decides, moved by about `slack`, relative to the
    value plus the size of the terms behind it, or what is usual in its line. side: of a
    comparison up or down. Values in order that are closer become equal, but for their places, by
    which the first ones come first where it is positive and the last ones otherwise; by 1 and by
    0.125 other ones are together, and by less those that are equal in single precision. relative: a
    compared value moves relative to itself alone. sizes: of the terms, see uncertainty; one alone
    is an upper limit on the usual size. Without any, the usual size of the values counts."""
    import torch

    value = args[moved(name, compared(name, args, kwargs))]
    if name in COMPARISONS:
        size = _size(value, relative=relative, sizes=sizes)
        if not relative:
            size = size.clamp(min=torch.finfo(value.dtype).tiny)  # where all are zero
        return value + side * slack * size
    return _grouped(value, _axis(name, args, kwargs), side, slack, sizes)


def _grouped(value: Any, axis: int | None, side: float, slack: float, sizes: Any) -> Any:
    """Return values that are put in order along an axis, close ones in the order of their places,
    see `move`."""
    import torch

    count = value.numel() if axis is None else value.shape[axis]
    places = torch.arange(count, device=value.device).to(value.dtype) / (2 * count)
    along = (
        value.shape
        if axis is None
        else [-1 if number == axis % value.dim() else 1 for number in range(value.dim())]
    )
    places = math.copysign(1.0, side) * places.view(along)
    if abs(side) < LEAST_GROUPING and slack >= SINGLE:
        single = value.float()
        above = torch.nextafter(single, torch.full_like(single, math.inf)).to(value.dtype)
        moved = single.to(value.dtype) - places * (above - single)
        return torch.where(moved.isfinite(), moved, value)
    usable = torch.where(value.isfinite(), value, 0).double()
    scale = typical_size(usable, axis)
    if sizes is not None and sizes.shape == value.shape:
        scale = torch.minimum(scale, _levels(sizes, axis))
    scale = scale.clamp(min=1e-300)
    # on this axis steps of equal width are relative to the value plus the scale
    ratio = usable.abs() / scale
    bent = usable.sign() * torch.log1p(ratio)
    offset = {1.0: 0.0, LEAST_GROUPING: 0.5}.get(abs(side), 0.25)
    grouped = ((bent / slack + offset).floor() + (1 - offset) - places) * slack
    moved = (grouped.sign() * scale * torch.expm1(grouped.abs())).to(value.dtype)
    return torch.where(value.isfinite() & ratio.isfinite() & moved.isfinite(), moved, value)


def _levels(sizes: Any, axis: int | None) -> Any:
    """Return what is usual among the sizes of the terms behind values in order: the median of those
    in a line, but where terms are far smaller than that, as beside a mask that was added, the
    median of these."""
    import torch

    sizes = sizes.double()
    rest, found = sizes, median(sizes, axis)
    for _ in range(LEVELS):
        low = (rest > 0) & (rest < LEVEL * found)
        rest = torch.where(low, rest, 0)
        found = torch.where(low, median(rest, axis), found)
    return found


def median(sizes: Any, axis: int | None = None) -> Any:
    """Return the median of those that are not zero, along an axis or of all."""
    import torch

    sizes = torch.where(sizes > 0, sizes, math.nan)
    if axis is None:
        return sizes.nanmedian().nan_to_num()
    return sizes.nanmedian(axis, keepdim=True).values.nan_to_num()


def typical_size(value: Any, axis: int | None = None) -> Any:
    """Return the root mean square of all values or along an axis, without overflow."""
    top = value.abs().amax() if axis is None else value.abs().amax(axis, keepdim=True)
    top = top.clamp(min=1e-300)
    squares = (value / top).square()
    return top * (squares.mean() if axis is None else squares.mean(axis, keepdim=True)).sqrt()


def rectifies(name: str) -> bool:
    """Return whether an operator keeps numbers on one side of another."""
    return name.strip("_") in _RECTIFIERS


def move_rectified(name: str, args: Sequence[Any], side: float, slack: float) -> Sequence[Any]:
    """Return the arguments of an operator, those that it rectifies moved like those of a
    comparison. Zeros stay: they are zero because of their own structure, or equal inputs."""
    import torch

    def moved(value: Any) -> Any:
        if not (isinstance(value, torch.Tensor) and value.is_floating_point()):
            return value
        by = torch.where(value == 0, 0, side * slack * _size(value)).to(value.dtype)
        return value.add_(by) if name.endswith("_") else value + by

    if not rectifies(name):
        return args
    first, *others = args
    return [moved(first), *(map(moved, others) if name in _OF_TWO else others)]


def are_equal(name: str, args: Sequence[Any]) -> Any:
    """Return where both sides of a comparison are equal, None for another operator."""
    return args[0] == args[1] if name in _ELEMENTWISE else None


def keep_equal(
    name: str, args: Sequence[Any], kwargs: dict[str, Any], moved: Sequence[Any], where: Any
) -> Sequence[Any]:
    """Return a comparison's arguments as moved, but equal ones where its sides stay equal. where:
    see are_equal; None where nothing does. What was moved before may have changed shapes."""
    import torch

    now = are_equal(name, args)
    if where is None or now is None or where.shape != now.shape:
        return moved
    at = compared(name, args, kwargs)[0]
    kept = list(moved)
    kept[at] = torch.where(where, args[1 - at], moved[at])
    return kept


def _size(value: Any, *, relative: bool = False, sizes: Any = None) -> Any:
    """Return the sizes of compared values, to which a move is relative."""
    import torch

    usable = torch.where(value.isfinite(), value, 0)
    if relative:
        return usable.abs()
    if sizes is not None and (sizes.dim() or not value.dim()) and _fits(value, sizes):
        return usable.abs() + sizes.to(value.dtype)
    return usable.abs() + smaller(_usual_size(usable), sizes)


def _fits(value: Any, sizes: Any) -> bool:
    """Return whether a value, which may be broadcast, has these sizes."""
    try:
        value.expand(sizes.shape)
    except RuntimeError:  # something was moved before that changed shapes
        return False
    return True


def _usual_size(value: Any) -> Any:
    """Return the median size of the values that are not zero. Of values over many decades the root
    mean square is far larger than most, and every comparison would be open."""
    sizes = value.abs().reshape(-1)
    sizes = sizes[sizes > 0]
    return sizes.median() if sizes.numel() else value.new_zeros(())


def _axis(name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> int | None:
    position, usual = CHOICES[name]
    axis: int | None = args[position] if len(args) > position else kwargs.get("dim", usual)
    return axis
