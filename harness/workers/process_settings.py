"""What a call must leave in its process as it was: settings of torch, generators of random numbers,
and how the processor computes."""

from __future__ import annotations

import ctypes
import hashlib
import random
from dataclasses import dataclass
from typing import Any

from ..native.float_state import STATE_BYTES, c_mathematics

DEFAULT_STATE, TOWARD_ZERO = ctypes.c_void_p(-1), 0xC00  # FE_DFL_ENV, FE_TOWARDZERO on x86-64
PRECISIONS = ("highest", "high")


def present() -> dict[str, Any]:
    """Return the settings by their names in words."""
    import torch

    return {
        "torch's default dtype": str(torch.get_default_dtype()),
        "the precision of matrix products": torch.get_float32_matmul_precision(),
        "whether only deterministic algorithms are used": (
            torch.are_deterministic_algorithms_enabled()
        ),
        "torch's generator of random numbers": _digest(torch.get_rng_state().numpy().tobytes()),
        "Python's generator of random numbers": _digest(repr(random.getstate()).encode()),
        "how the processor rounds": _rounding(),
        "whether the processor keeps denormal numbers": _keeps_denormals(),
    }


@dataclass
class Unusual:
    """Settings that no candidate expects, so that one that sets its own is seen even if earlier
    calls have left them; the outputs of a call under them mean nothing."""

    _state: ctypes.Array[ctypes.c_char]
    _precision: str

    @classmethod
    def begin(cls) -> Unusual:
        import torch

        kept = cls(ctypes.create_string_buffer(STATE_BYTES), torch.get_float32_matmul_precision())
        torch.rand(1)
        random.random()
        torch.set_float32_matmul_precision(PRECISIONS[kept._precision == PRECISIONS[0]])
        c_mathematics().fegetenv(kept._state)
        c_mathematics().fesetenv(DEFAULT_STATE)
        c_mathematics().fesetround(TOWARD_ZERO)
        return kept

    def end(self) -> None:
        import torch

        c_mathematics().fesetenv(self._state)
        torch.set_float32_matmul_precision(self._precision)


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
