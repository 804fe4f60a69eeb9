"""What a call must leave in its process as it was: settings of torch, generators of random numbers,
and how the processor computes."""

from __future__ import annotations

import ctypes
import hashlib
import random
from typing import Any

from ..native.float_state import c_mathematics

DEFAULT_STATE = ctypes.c_void_p(-1)  # FE_DFL_ENV: to nearest, denormal numbers are kept


def modes() -> dict[str, Any]:
    """Return torch's settings by their names in words."""
    import torch

    try:
        precision = torch.get_float32_matmul_precision()
    except RuntimeError:  # set for each backend by itself
        precision = "mixed"
    return {
        "torch's default dtype": str(torch.get_default_dtype()),
        "the precision of matrix products": precision,
        "whether only deterministic algorithms are used": (
            torch.are_deterministic_algorithms_enabled()
        ),
    }


def prepare() -> None:
    """Undo what an earlier call may have left, so that a call which leaves it again is seen."""
    import torch

    torch.rand(1)
    random.random()
    c_mathematics().fesetenv(DEFAULT_STATE)


def present() -> dict[str, Any]:
    """Return all settings by their names in words."""
    import torch

    return {
        **modes(),
        "torch's generator of random numbers": _digest(torch.get_rng_state().numpy().tobytes()),
        "Python's generator of random numbers": _digest(repr(random.getstate()).encode()),
        "how the processor rounds": _rounding(),
        "whether the processor keeps denormal numbers": _keeps_denormals(),
    }


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _rounding() -> list[float]:
    """Return sums that each way of rounding makes differently: to nearest, up, down and to zero."""
    one, half_a_place = 1.0, 2.0**-53
    return [one + half_a_place, one + 1.5 * half_a_place, -one - half_a_place]


def _keeps_denormals() -> list[bool]:
    """Return whether results, and arguments, below the smallest normal number stay as they are."""
    smallest_normal, tiny, half, many = 2.0**-1022, 5e-324, 0.5, 2.0**200
    return [smallest_normal * half > 0, tiny * many > 0]
