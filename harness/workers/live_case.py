"""One case of a task as the reference worker keeps it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..wire.layouts import Layout
from .task_file import CaseSpec


@dataclass
class LiveCase:
    """The model in the working dtype and in double precision, its initial state, the
    outputs' layout, the outputs from which gradients flow back, the inputs' specs. memory: see
    tensor_relations, for the numbers and texts `values` among the inputs, for any where the model
    looks at what is in tensors."""

    spec: CaseSpec
    model: Callable[..., Any]
    precise: Callable[..., Any]
    init: Any
    initial_state: dict[str, Any]
    outputs: Layout
    # False where the reference cannot run in float64: its own dtype is then the best there is
    doubled: bool
    upstream: Sequence[int] = ()
    specs: list[Any] = field(default_factory=list)
    memory: dict[str, list[int]] = field(default_factory=dict)
    values: str = ""
    looks: bool = False


def values_of(layout: Layout) -> str:
    """What among the inputs is no tensor; as text, in which True is not 1."""
    return repr([leaf["value"] for leaf in layout["leaves"] if "value" in leaf])
