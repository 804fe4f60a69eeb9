"""Calls of a model: from inputs to a flat list of output tensors, with gradients if the task
requires them.

Baseline and candidate go through exactly this code, so that its overhead is the same on both sides
of a comparison.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ..wire.layouts import Layout
from ..wire.nesting import fields_of, map_tensors
from .modules import LoadError

TENSOR = "a tensor"
_PLAIN_KEYS = (str, int, float, bool, type(None))
# attributes that torch.compile sets on a model's parameters, and nn.Buffer on a tensor, with
# the types of their values; they do not matter in an output, and no such value holds a result
_MARKS = {"_dynamo_static_input_type": str, "persistent": bool, "_is_buffer": bool}
_NO_GRADIENTS = "no output requires grad, but the task asks for gradients"


def forward(
    model: Callable[..., Any],
    upstream: Sequence[int] = (),
    form: str = "",
    parameters: Sequence[Any] | None = None,
    *,
    recording: bool = False,
) -> Callable[[Any], list[Any]]:
    """Return a function from inputs to a flat list of output tensors.

    upstream: indices of the outputs from which gradients flow back. If there are any, the last
    inputs are the gradients with respect to these outputs, and the result continues with the
    gradients of the floating and complex inputs and of `parameters` (None: the model's trained
    parameters). form: what forward must return (see form_of), "" for anything. recording: without
    upstream, whether gradients are recorded, as for parameters alone: no input requires any.
    """
    import torch

    if recording:

        def recorded(inputs: Any) -> list[Any]:
            with torch.enable_grad():
                return [output.detach() for output in flatten(model(*inputs), form)]

        return recorded

    if not upstream:

        def plain(inputs: Any) -> list[Any]:
            if not torch.is_grad_enabled():  # already off for timed short calls: no_grad takes 2 us
                return flatten(model(*inputs), form)
            with torch.no_grad():
                return flatten(model(*inputs), form)

        return plain

    count = len(upstream)
    trained = list(trained_parameters(model).values()) if parameters is None else parameters

    def backward(inputs: Any) -> list[Any]:
        leaves, sources = _leaves(inputs[:-count])
        sources += trained
        outputs = flatten(model(*leaves), form)
        pairs = [
            (_root(outputs, number, gradient), gradient)
            for number, gradient in zip(upstream, inputs[-count:], strict=True)
        ]
        # a wrong dtype is refused later
        pairs = [(root, g.to(root.dtype)) for root, g in pairs if root.requires_grad]
        if not pairs:
            raise LoadError("structure", _NO_GRADIENTS)
        gradients = torch.autograd.grad(
            [r for r, _ in pairs], sources, [g for _, g in pairs], allow_unused=True
        )
        return [o.detach() for o in outputs] + [
            torch.zeros_like(s) if g is None else g for g, s in zip(gradients, sources, strict=True)
        ]

    return backward


def in_layout(call: Callable[[Any], list[Any]], outputs: Layout) -> Callable[[Any], list[Any]]:
    """Wrap a call so that its outputs are contiguous or have the reference's strides, with no lazy
    conjugation or negation left: the time for that belongs to the call."""
    strides = [tuple(leaf.get("as", leaf["stride"])) for leaf in outputs["leaves"]]

    def resolve(inputs: Any) -> list[Any]:
        results = call(inputs)
        # the number of outputs is checked later
        for number, (tensor, stride) in enumerate(zip(results, strides, strict=False)):
            if tensor.is_conj() or tensor.is_neg():
                tensor = results[number] = tensor.resolve_conj().resolve_neg()
            if tensor.stride() != stride and not tensor.is_contiguous():
                results[number] = tensor.contiguous()
        return results

    return resolve


def roots(model: Callable[..., Any], inputs: Any) -> dict[int, Any]:
    """Return the outputs of a task's model, by index, from which gradients flow back. Raises
    LoadError("structure") if there is none."""
    outputs = flatten(model(*_leaves(inputs)[0]))
    if sources := {number: o.detach() for number, o in enumerate(outputs) if o.requires_grad}:
        return sources
    raise LoadError("structure", _NO_GRADIENTS)


def trained_parameters(model: Any) -> dict[str, Any]:
    """Return the parameters that require gradients, by name; {} for a function."""
    named = model.named_parameters() if hasattr(model, "named_parameters") else ()
    return {name: parameter for name, parameter in named if parameter.requires_grad}


def _leaves(inputs: Any) -> tuple[list[Any], list[Any]]:
    """Return the inputs with floating and complex tensors as leaves of a new graph, and a list of
    these tensors in order."""
    sources = []

    def leaf(tensor: Any) -> Any:
        if not (tensor.is_floating_point() or tensor.is_complex()):
            return tensor
        sources.append(tensor.detach().requires_grad_())
        return sources[-1]

    # plain tensors skip map_tensors, since this is part of timed calls
    return [leaf(v) if hasattr(v, "data_ptr") else map_tensors(v, leaf) for v in inputs], sources


def _root(outputs: list[Any], number: int, gradient: Any) -> Any:
    """Return the output that a gradient belongs to."""
    if number >= len(outputs):
        raise LoadError(
            "structure",
            f"{len(outputs)} outputs; the reference has a differentiable output {number}",
        )
    if outputs[number].shape != gradient.shape:
        raise LoadError("shape", shape_difference(number, outputs[number], gradient))
    return outputs[number]


def shape_difference(number: int, tensor: Any, reference: Any) -> str:
    """Say how an output's shape differs from the reference's."""
    return (
        f"output {number} has shape {tuple(tensor.shape)}, the reference's has "
        f"{tuple(reference.shape)}"
    )


def form_of(value: Any) -> str:
    """Describe what forward returns: "a tensor", "(a tensor, a tensor)", "(values: a tensor,
    indices: a tensor)", "{'loss': a tensor}". A list counts as a tuple. Raises
    LoadError("structure") for a dict key that is not a plain value."""
    if isinstance(value, (list, tuple)):
        forms: Iterable[str] = map(form_of, value)
        if fields := fields_of(value):
            forms = (f"{name}: {form}" for name, form in zip(fields, forms, strict=True))
        return f"({', '.join(forms)})"
    if isinstance(value, dict):
        for key in value:
            if type(key) not in _PLAIN_KEYS:
                raise LoadError(
                    "structure",
                    f"forward returns a dict with a key that is a {type(key).__name__}; strings, "
                    "numbers, booleans and None can be keys",
                )
        return f"{{{', '.join(f'{key!r}: {form_of(value[key])}' for key in _in_order(value))}}}"
    return TENSOR


def flatten(value: Any, form: str = "") -> list[Any]:
    """Return the tensors of an output in order. Raises LoadError("structure") for anything that is
    not a plain tensor, and for a form that differs from `form` (see form_of), if given."""
    import torch

    if (
        type(value) in (torch.Tensor, torch.nn.Parameter)
        and (not value.__dict__ or not _own_attributes(value))
        and form in ("", TENSOR)
    ):
        return [value]
    if form and (actual := form_of(value)) != form:
        raise LoadError(
            "structure", f"forward returns {actual:.200}; the reference returns {form:.200}"
        )
    if isinstance(value, (list, tuple)):
        return [t for v in value for t in flatten(v)]
    if isinstance(value, dict):
        return [t for k in _in_order(value) for t in flatten(value[k])]
    raise LoadError(
        "structure",
        f"an output is a {type(value).__name__}{_attributes_text(value)}; only plain tensors (in "
        "lists, tuples, dicts) count",
    )


def _in_order(keys: Iterable[Any]) -> list[Any]:
    """Sort the keys of a dict; those of each type by themselves, since texts and numbers have no
    common order."""
    return sorted(keys, key=lambda key: (type(key).__name__, key))


def _own_attributes(value: Any) -> list[str]:
    """Return the names of a value's attributes besides torch's own marks."""
    attributes = getattr(value, "__dict__", {})
    return [name for name, held in attributes.items() if type(held) is not _MARKS.get(name)]


def _attributes_text(value: Any) -> str:
    names = ", ".join(_own_attributes(value))
    return f" with attributes of its own ({names})" if names else ""
