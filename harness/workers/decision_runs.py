"""Runs of a reference in which what its operators decide on is seen, and replaced."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from . import decisions, operators

# operators that return numbers of their arguments unchanged, besides exact ones
_COPYING = frozenset([
    "median", "nanmedian", "mode", "nan_to_num", "cummax", "cummin", "kthvalue", "masked_scatter",
    "select_scatter", "slice_scatter", "upsample_nearest1d", "upsample_nearest2d",
    "upsample_nearest3d", "max_pool2d_with_indices", "max_pool3d_with_indices",
    "adaptive_max_pool2d", "adaptive_max_pool3d",
])  # fmt: skip

# the most that an argument is moved, in steps: then 1 in 32 evenly spread arguments is near a tie,
# and a kernel with another rounding rule is still wrong in the rest; and where it is cut off, since
# large quotients are off by more, and a rounded one is wrong in half of all
MOST, MOST_CUT = 2.0**-6, 2.0**-2
# operators that divide by a scale themselves, their second argument
SCALING = frozenset(
    [
        "fake_quantize_per_tensor_affine_cachemask",
        "fake_quantize_per_channel_affine_cachemask",
        "_fake_quantize_per_tensor_affine_cachemask_tensor_qparams",
    ]
)
_TO_WHOLE = frozenset(["round", "floor", "ceil", "trunc"])
CASTS = frozenset(["_to_copy"])  # to other dtypes
_TO_NEAREST = frozenset(["round", "round_", *SCALING])
At = Callable[[str, Sequence[Any], dict[str, Any]], Sequence[Any]]


def watch(
    call: Callable[[Any], Any],
    inputs: Any,
    at: At,
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
            name = _name(full_name(func))
            result = self.run(func, at(name, args, kwargs), kwargs)
            if after is not None:
                after(name, [*args, *kwargs.values()], result)
            return result

    with RoundingMode():
        return call(inputs)


def _name(full: str) -> str:
    """Return the name of one of the framework's own operators; of another one what no other has,
    since anyone can define one of any name."""
    namespace, name = full.split(".")[:2]
    return name if namespace in ("aten", "prims") else f"{namespace}::{name}"


def positions(name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> list[int]:
    """Return the positions of the arguments that an operator rounds or decides on."""
    return [0] if rounds(name, args, kwargs) else decisions.compared(name, args, kwargs)


def move(
    name: str,
    args: Sequence[Any],
    kwargs: dict[str, Any],
    side: float,
    slack: float,
    *,
    relative: bool = False,
    sizes: Any = None,
) -> Sequence[Any]:
    """Return a deciding operator's arguments with the value on which it decides moved to a side, by
    `slack` at most. relative, sizes: see decisions.move."""
    import torch

    if compared := decisions.compared(name, args, kwargs):
        moved = list(args)
        moved[decisions.moved(name, compared)] = decisions.move(
            name, args, kwargs, side, slack, relative=relative, sizes=sizes
        )
        return moved
    value = args[0]
    usable = torch.where(value.isfinite(), value, 0).abs()
    known = sizes is not None and sizes.shape == value.shape
    if known:
        beside = sizes.to(value.dtype)
    else:
        beside = decisions.smaller(decisions.typical_size(usable), sizes)
    dtype = _cast_to(name, kwargs)
    nearest = name in _TO_NEAREST or (dtype is not None and dtype.is_floating_point)
    most = (MOST if nearest else MOST_CUT) * _step(name, args, kwargs)
    by = torch.minimum((usable + beside) * (abs(side) * slack), most)
    if not nearest:  # most whole numbers are that by their own structure
        whole = value == value.round()
        stays = whole & ((beside == 0) | (value == 0)) if known else whole
        by = torch.where(stays, 0, by)
    by = by if side > 0 else by.neg_()
    return [value.add_(by) if name.endswith("_") else value + by, *args[1:]]


def _step(name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Return how far the results of an operator that rounds are apart."""
    import torch

    value = args[0]
    if name in SCALING:
        return torch.as_tensor(args[1]).abs().min().to(value)
    dtype = _cast_to(name, kwargs)
    if dtype is not None and dtype.is_floating_point:
        return (value.abs() * torch.finfo(dtype).eps / 2).clamp(min=torch.finfo(dtype).tiny)
    return value.new_tensor(10.0 ** -kwargs.get("decimals", 0))


def keeps_exact(name: str) -> bool:
    """Return whether an operator, or the one that it does in place, is exact."""
    return any(operators.is_exact([f"aten.{each}"]) for each in (name, name.strip("_") or name))


def rounds(name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> bool:
    """Return whether an operator rounds computed values to whole numbers or to 8 bits."""
    import torch

    if not args or not isinstance(args[0], torch.Tensor) or not args[0].is_floating_point():
        return False
    return is_rounding(name) or _cast_to(name, kwargs) is not None


def _cast_to(name: str, kwargs: dict[str, Any]) -> Any:
    """Return to which 8-bit floats, or whole numbers, an operator casts, None for others."""
    import torch

    dtype = kwargs.get("dtype") if name in CASTS else None
    if dtype is None or dtype.is_complex or dtype == torch.bool:
        return None
    return dtype if dtype.itemsize == 1 or not dtype.is_floating_point else None


def copies(name: str) -> bool:
    """Return whether each number that an operator returns is one of its arguments', or exact."""
    return name in _COPYING or keeps_exact(name)


def is_rounding(name: str) -> bool:
    return name.strip("_") in _TO_WHOLE or name in SCALING


def storage(tensor: Any) -> int:
    """Return a number for the storage of a tensor, 0 if it has none (sparse tensors)."""
    try:
        return int(tensor.untyped_storage()._cdata)
    except RuntimeError:  # which an operator that is not there raises, too
        return 0
