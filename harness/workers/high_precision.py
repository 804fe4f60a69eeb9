"""The reference in high precision: its model in float64, where it can run so."""

from __future__ import annotations

import copy
from typing import Any

from ..wire.nesting import map_tensors
from . import model_calls


def double_model(model: Any) -> Any:
    """A copy in float64; a plain function as it is: its inputs decide."""
    return copy.deepcopy(model).double() if hasattr(model, "named_parameters") else model


def to_double(inputs: list[Any]) -> Any:
    """Floating tensors in float64, however deep they stand, and all else as it is."""
    return map_tensors(inputs, lambda t: t.double() if t.is_floating_point() else t)


def precise_model(model: Any, upstream: list[int], inputs: list[Any]) -> tuple[Any, bool]:
    """The model in float64, if it can run so, and whether it can."""
    try:
        precise = double_model(model)
        model_calls.forward(precise, upstream)(to_double(inputs))
    except Exception:  # a dtype written into the reference; the caller reports it as a note
        return model, False
    return precise, True
