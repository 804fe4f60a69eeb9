"""The reference in high precision: its model in float64 and complex128, where it can run so."""

from __future__ import annotations

import copy
from typing import Any

from ..wire.nesting import map_tensors
from . import model_calls


def double_model(model: Any) -> Any:
    """Return a copy of the model in double precision. A plain function is returned itself: its
    inputs decide the precision."""
    if not hasattr(model, "named_parameters"):
        return model
    # Module.double() leaves complex parameters and buffers in single precision
    return copy.deepcopy(model)._apply(_double)


def to_double(inputs: list[Any]) -> Any:
    """Convert floating tensors to float64 and complex ones to complex128, also in nested
    containers; keep everything else."""
    return map_tensors(inputs, _double)


def _double(tensor: Any) -> Any:
    import torch

    if tensor.is_complex():
        return tensor.to(torch.complex128)
    return tensor.double() if tensor.is_floating_point() else tensor


def precise_model(model: Any, upstream: list[int], inputs: list[Any]) -> tuple[Any, bool]:
    """Return the model in float64 if it can run in it, and whether it can."""
    try:
        precise = double_model(model)
        model_calls.forward(precise, upstream)(to_double(inputs))
    except Exception:  # a dtype written into the reference; the caller reports it as a note
        return model, False
    return precise, True
