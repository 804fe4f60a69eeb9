"""The reference in high precision: its model in float64, where it can run in it."""

from __future__ import annotations

import copy
from typing import Any

from ..wire.nesting import map_tensors
from . import model_calls


def double_model(model: Any) -> Any:
    """Return a copy of the model in float64. A plain function is returned itself: its inputs decide
    the precision."""
    return copy.deepcopy(model).double() if hasattr(model, "named_parameters") else model


def to_double(inputs: list[Any]) -> Any:
    """Convert floating tensors to float64, also in nested containers; keep everything else."""
    return map_tensors(inputs, lambda t: t.double() if t.is_floating_point() else t)


def precise_model(model: Any, upstream: list[int], inputs: list[Any]) -> tuple[Any, bool]:
    """Return the model in float64 if it can run in it, and whether it can."""
    try:
        precise = double_model(model)
        model_calls.forward(precise, upstream)(to_double(inputs))
    except Exception:  # a dtype written into the reference; the caller reports it as a note
        return model, False
    return precise, True
