"""What a kernel would be off by that reads one of several neighbours in place of them all.

A mean of half a million values hardly changes if most of them are left out, and in 16 bits nobody
sees it. Whether inputs would show it depends on the task: large values decide a plain sum, but not
the mean of a sigmoid. So the reference itself is run on such a sample of each drawn set, and sets
that would show it are preferred.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from ..wire.nesting import replace_tensors, tensors_of

NEIGHBOURS = 8  # of so many, the first stands for all
LARGEST = 1e30  # of an error that is told


def errors(
    call: Callable[[Any], list[Any]], precise: Any, expected: Sequence[Any]
) -> list[float] | None:
    """Return for each output the error of call(precise) on a sample of its inputs, relative to the
    norm of the expected output. None if the reference does not accept the sample."""
    try:
        found = call(replace_tensors(precise, [_repeated(t) for t in tensors_of(precise)]))
        return [_distance(one, other) for one, other in zip(found, expected, strict=True)]
    except Exception:  # whatever a task raises: it accepts the inputs themselves
        return None


def _repeated(tensor: Any) -> Any:
    """Return a tensor in which the first of each group of neighbours stands for all."""
    if tensor.numel() < NEIGHBOURS:
        return tensor
    flat = tensor.detach().reshape(-1).clone()
    groups = flat[: flat.numel() // NEIGHBOURS * NEIGHBOURS].view(-1, NEIGHBOURS)
    groups.copy_(groups[:, :1].clone().expand_as(groups))
    return flat.view(tensor.shape)


def _distance(found: Any, expected: Any) -> float:
    if not expected.is_floating_point() and not expected.is_complex():
        return 0.0 if bool((found == expected).all()) else LARGEST
    import torch

    dtype = torch.complex128 if expected.is_complex() else torch.float64
    wide = expected.to(dtype)
    error = float((found.to(dtype) - wide).norm()) / max(float(wide.norm()), 1e-300)
    return LARGEST if math.isnan(error) else min(error, LARGEST)
