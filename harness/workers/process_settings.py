"""What a call must leave in its process as it was: settings of torch and NumPy, generators of
random numbers, and how the processor computes."""

from __future__ import annotations

import ctypes
import gc
import hashlib
import os
import platform
import random
import signal
import sys
from collections.abc import Callable
from typing import Any

from ..native.float_state import STATE_BYTES, c_mathematics

DEFAULT_STATE = ctypes.c_void_p(-1)  # FE_DFL_ENV: to nearest, denormal numbers are kept
NUMBERS = "generator of random numbers"  # in the name of each


def modes() -> dict[str, Any]:
    """Return settings of torch and NumPy by their names in words."""
    import torch

    try:
        precision = torch.get_float32_matmul_precision()
    except RuntimeError:  # set for each backend by itself
        precision = "mixed"
    numpy = sys.modules.get("numpy")
    return {
        "torch's default dtype": str(torch.get_default_dtype()),
        "the precision of matrix products": precision,
        "whether only deterministic algorithms are used": (
            torch.are_deterministic_algorithms_enabled()
        ),
        "whether gradients are recorded": torch.is_grad_enabled(),
        "whether torch is in inference mode": torch.is_inference_mode_enabled(),
        "whether torch looks for anomalies": torch.is_anomaly_enabled(),
        "torch's default device": str(torch.get_default_device()),
        "modes that watch torch's functions and operators": [
            torch._C._len_torch_function_stack(),
            torch._C._len_torch_dispatch_stack(),
        ],
        "which kinds of attention torch may choose": [
            torch._C._get_flash_sdp_enabled(),
            torch._C._get_mem_efficient_sdp_enabled(),
            torch._C._get_math_sdp_enabled(),
            torch._C._get_cudnn_sdp_enabled(),
        ],
        "whether torch.autocast is on": [
            [torch.is_autocast_enabled(kind), str(torch.get_autocast_dtype(kind))]
            for kind in ("cpu", "cuda")
        ],
        "whether torch uses oneDNN": torch._C._get_mkldnn_enabled(),
        "how deep Python may recurse": sys.getrecursionlimit(),
        "the working folder": _folder(),
        "how Ctrl-C is treated": str(signal.getsignal(signal.SIGINT)),
        "whether Python collects garbage": gc.isenabled(),
        "hooks of all modules": sorted(
            f"{name}: {len(value)}"
            for name, value in vars(torch.nn.modules.module).items()
            if name.startswith("_global_") and hasattr(value, "__len__")
        ),
        "how NumPy treats errors": numpy.geterr() if numpy else {},
    }


def prepare() -> None:
    """Undo what an earlier call may have left, so that a call which leaves it again is seen."""
    import torch

    torch.rand(1)
    random.random()
    if numpy := sys.modules.get("numpy"):
        numpy.random.random()
    c_mathematics().fesetenv(DEFAULT_STATE)


def present() -> dict[str, Any]:
    """Return all settings by their names in words."""
    import torch

    numpy = sys.modules.get("numpy")
    return {
        **modes(),
        # not among the modes: a worker uses other numbers for preparation
        "how many threads torch uses": torch.get_num_threads(),
        f"torch's {NUMBERS}": _digest(torch.get_rng_state().numpy().tobytes()),
        f"Python's {NUMBERS}": _digest(repr(random.getstate()).encode()),
        f"NumPy's {NUMBERS}": (
            _digest(_plain(numpy.random.get_state(legacy=False)).encode()) if numpy else ""
        ),
        "how the processor rounds": _rounding(),
        "whether the processor keeps denormal numbers": _keeps_denormals(),
        "how the processor treats floating-point errors": _traps(),
    }


def changed_by(call: Callable[[], Any], earlier: dict[str, Any]) -> list[str]:
    """Call it, and return the names of the settings that are others afterwards. earlier: see modes,
    before the first call."""
    prepare()
    before = {**present(), **earlier}
    call()
    after = present()
    return [name for name, value in before.items() if after[name] != value]


def _folder() -> str:
    try:
        return os.getcwd()
    except OSError:  # it is gone
        return ""


def _plain(value: Any) -> str:
    """Return the repr of a value, of arrays that of their bytes: theirs takes 100 times as long."""
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key!r}: {_plain(each)}' for key, each in value.items())}}}"
    return repr(value.tobytes() if hasattr(value, "tobytes") else value)


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


def _traps() -> list[int]:
    """Return which floating-point errors end the process, on x86-64 in both units (long double has
    the old one), with all else that these are told but the errors met so far."""
    c = c_mathematics()
    found = [c.fegetexcept() if hasattr(c, "fegetexcept") else 0]
    state = ctypes.create_string_buffer(STATE_BYTES)
    if platform.machine() == "x86_64" and c.fegetenv(state) == 0:
        found.append(int.from_bytes(state.raw[:2], "little"))
        found.append(int.from_bytes(state.raw[28:32], "little") & ~0x3F)  # MXCSR
    return found
