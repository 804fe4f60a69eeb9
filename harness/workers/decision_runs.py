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
# and a kernel with another rounding rule is still wrong in the rest
MOST = 2.0**-6
# operators that divide by a scale themselves, their second argument
SCALING = frozenset(
    [
        "fake_quantize_per_tensor_affine_cachemask",
        "fake_quantize_per_channel_affine_cachemask",
        "_fake_quantize_per_tensor_affine_cachemask_tensor_qparams",
    ]
)
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
            name = full_name(func).split(".")[1]
            result = self.run(func, at(name, args, kwargs), kwargs)
            if after is not None:
                after(name, [*args, *kwargs.values()], result)
            return result

    with RoundingMode():
        return call(inputs)


def positions(name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> list[int]:
    """Return the positions of the arguments that an operator rounds or decides on."""
    return [0] if _rounds(name, args) else decisions.compared(name, args, kwargs)


def move(
    name: str,
    args: Sequence[Any],
    kwargs: dict[str, Any],
    side: float,
    slack: float,
    *,
    relative: bool = False,
    usual: Any = None,
) -> Sequence[Any]:
    """Return a deciding operator's arguments with the value on which it decides moved to a side, by
    `slack` at most. relative, usual: see decisions.move."""
    import torch

    if compared := decisions.compared(name, args, kwargs):
        moved = list(args)
        moved[compared[0]] = decisions.move(
            name, args, kwargs, side, slack, relative=relative, usual=usual
        )
        return moved
    value = args[0]
    usable = torch.where(value.isfinite(), value, 0).abs()
    beside = decisions.smaller(decisions.typical_size(usable), usual)
    step = (
        float(torch.as_tensor(args[1]).abs().min())
        if name in SCALING
        else 10.0 ** -kwargs.get("decimals", 0)
    )
    by = usable.add_(beside).mul_(abs(side) * slack).clamp_(max=MOST * step)
    by = by if side > 0 else by.neg_()
    return [value.add_(by) if name.endswith("_") else value + by, *args[1:]]


def keeps_exact(name: str) -> bool:
    """Return whether an operator, or the one that it does in place, is exact."""
    return any(operators.is_exact([f"aten.{each}"]) for each in (name, name.strip("_") or name))


def _rounds(name: str, args: Sequence[Any]) -> bool:
    return is_rounding(name) and args[0].is_floating_point()


def copies(name: str) -> bool:
    """Return whether each number that an operator returns is one of its arguments', or exact."""
    return name in _COPYING or keeps_exact(name)


def is_rounding(name: str) -> bool:
    return name.strip("_") == "round" or name in SCALING


def storage(tensor: Any) -> int:
    """Return a number for the storage of a tensor, 0 if it has none (sparse tensors)."""
    try:
        return int(tensor.untyped_storage()._cdata)
    except RuntimeError:  # which an operator that is not there raises, too
        return 0
