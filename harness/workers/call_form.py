"""The form of a task's calls: their outputs, and the smallest call of this form."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ..wire.layouts import Layout
from ..wire.nesting import tensors_of
from . import model_calls
from .modules import LoadError

_libc = ctypes.CDLL(None, use_errno=True)
Forms = list[tuple[Any, Any, int]]  # the required shape and dtype of each output, and its bytes


@dataclass(frozen=True)
class CallForm:
    """The form of a task's calls. layout: of the inputs. outputs: the results, then the gradients.
    results: the number of outputs that `forward` returns. upstream: the indices of those from which
    gradients flow back."""

    layout: Layout
    outputs: Forms
    results: int
    upstream: Sequence[int] = ()

    def nothing(self) -> Callable[[Any], list[Any]]:
        """Return the smallest possible call of a candidate: a module that allocates its outputs and
        calls a native function, through the same code as every call. A candidate that replaces the
        gate's loop could save all of this time."""
        import torch

        def allocate(forms: Forms) -> list[Any]:
            _libc.abs(0)
            return [torch.empty(shape, dtype=dtype) for shape, dtype, _ in forms]

        results, gradients = self.outputs[: self.results], self.outputs[self.results :]
        tensors = [leaf for leaf in self.layout["leaves"] if "value" not in leaf]
        inputs = tensors[: len(tensors) - len(self.upstream)]
        nested = not all(isinstance(node, int) for node in self.layout["tree"]["list"])

        class Through(torch.autograd.Function):
            @staticmethod
            def forward(context: Any, *_: Any) -> Any:
                outputs = allocate(results)
                context.mark_non_differentiable(
                    *(t for n, t in enumerate(outputs) if n not in self.upstream)
                )
                return tuple(outputs)

            @staticmethod
            def backward(context: Any, *_: Any) -> Any:
                values = iter(allocate(gradients))
                return tuple(
                    next(values) if needed else None for needed in context.needs_input_grad
                )

        class Nothing(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                of_inputs = sum(_has_gradient(leaf) for leaf in inputs)
                self.values = torch.nn.ParameterList(
                    torch.empty(shape, dtype=dtype) for shape, dtype, _ in gradients[of_inputs:]
                )

            def forward(self, *inputs: Any) -> Any:
                if not gradients:
                    return allocate(results)
                # autograd does not look for tensors inside containers
                leaves = tensors_of(inputs) if nested else inputs
                return Through.apply(*leaves, *self.values)  # type: ignore[no-untyped-call]

        return model_calls.forward(Nothing(), self.upstream)


def output_forms(layout: Layout) -> Forms:
    """Return shape, dtype and bytes of each output."""
    import torch

    return [
        (torch.Size(leaf["shape"]), getattr(torch, leaf["dtype"]), leaf["nbytes"])
        for leaf in layout["leaves"]
    ]


def form_error(tensor: Any, shape: Any, dtype: Any) -> LoadError:
    """Return the error for an output whose shape or dtype differs from the reference's."""
    if tensor.shape != shape:
        return LoadError(
            "shape",
            f"an output has shape {tuple(tensor.shape)}, the reference's has {tuple(shape)}",
        )
    return LoadError("dtype", f"an output is {tensor.dtype}, the reference's is {dtype}")


def _has_gradient(leaf: dict[str, Any]) -> bool:
    import torch

    dtype = getattr(torch, leaf["dtype"])
    return bool(dtype.is_floating_point or dtype.is_complex)


def spread_bytes(shape: Any, strides: Any, item: int) -> int:
    """Return the bytes from the first element to the end of the last."""
    return int(
        item * (1 + sum((extent - 1) * step for extent, step in zip(shape, strides, strict=True)))
    )
