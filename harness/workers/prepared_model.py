"""A constructed model with everything that its calls need."""

from __future__ import annotations

import mmap
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ..wire import buffers
from ..wire.layouts import Layout
from ..wire.nesting import tensors_of
from . import model_calls, modules
from .modules import LoadError


@dataclass
class PreparedModel:
    """A model ready to be called. call: from inputs to output tensors in the layout `outputs`.
    targets: the tensors that take the reference's state, by name."""

    call: Callable[[Any], list[Any]]
    outputs: Layout
    slots: mmap.mmap | None  # None where the judge reads outputs in place
    slot_bytes: int
    device: str = "cpu"
    targets: dict[str, Any] = field(default_factory=dict)
    # an exported package with an empty kernel; None for other models
    without_kernel: Callable[..., Any] | None = None
    # indices of outputs that may share memory with inputs; None where this is not checked
    aliases: list[int] | None = None
    # the model itself, and the reference's parameters and buffers, which it must have
    model: Any = None
    reference_state: dict[str, tuple[list[int], str]] = field(default_factory=dict)
    _views: list[list[Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.call = model_calls.in_layout(self.call, self.outputs)

    def state(self) -> dict[str, Any]:
        """Return the present tensors of the reference's state, by name; forward may have replaced
        some. Raises LoadError where one is missing."""
        return modules.match_state(self.reference_state, self.model)

    def views(self, count: int) -> list[list[Any]]:
        """Return the tensors of the first `count` slots."""
        for number in range(len(self._views), count):
            self._views.append(buffers.tensors(self.outputs, self.slots, number * self.slot_bytes))
        return self._views[:count]

    def refuse_inputs(self, outputs: list[Any], inputs: Any) -> None:
        """Raise LoadError for an output in the inputs' memory where the reference returns separate
        memory: changing the output would change the input."""
        if self.aliases is None:
            return
        regions = [(t.data_ptr(), t.data_ptr() + t.nbytes) for t in tensors_of(inputs)]
        for number, output in enumerate(outputs):
            if number in self.aliases or not output.numel():
                continue
            if any(start <= output.data_ptr() < end for start, end in regions):
                raise LoadError(
                    "structure",
                    f"output {number} lies in the memory of an input; the reference's has its own "
                    "memory. Return a copy",
                )


def copy_to_slots(tensors: list[Any], slots: list[Any]) -> None:
    """Copy the outputs of one call. Raises LoadError where number, shape or dtype differ from the
    reference's."""
    import torch

    if len(tensors) != len(slots):
        raise LoadError("structure", f"{len(tensors)} outputs instead of {len(slots)}")
    for number, (tensor, slot) in enumerate(zip(tensors, slots, strict=True)):
        if tensor.shape != slot.shape:
            raise LoadError("shape", model_calls.shape_difference(number, tensor, slot))
        if tensor.dtype != slot.dtype:
            raise LoadError(
                "dtype", f"output {number} is {tensor.dtype}, the reference's is {slot.dtype}"
            )
        if tensor.dtype == torch.bool:  # copy the bytes: a copy of booleans would make them 0 or 1
            slot, tensor = slot.view(torch.uint8), tensor.view(torch.uint8)
        slot.copy_(tensor.detach())
