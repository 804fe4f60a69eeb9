"""Input families: variations of the inputs of get_inputs(), each chosen to reveal a different kind
of mistake.

Tensors keep shape, strides and dtype. Complex ones are varied as pairs of numbers. Integers keep
the range of the originals, because they may be indices, and occur once where those do. Sorted
floating values stay sorted, and sorted integers are left unchanged, because they may be a table. A
family is used only where the reference and the framework can handle it (the judge decides). The
upstream gradients of a task with gradients are varied with its inputs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..wire.dtypes import is_float8
from ..wire.nesting import replace_tensors, tensors_of
from . import sorted_values
from .discrete_values import (
    CLUSTERED,
    SPARSE,
    change_eight_bits,
    change_integers,
    change_mask,
    may_be_clustered,
    may_be_sparse,
)
from .family_values import FLOATING, pick
from .value_order import sorted_axes

_WIDE = ("float64", "float32", "bfloat16", "float16")
_INDICES = ("int64", "int32", "int16", "uint8")
_CONTINUOUS = ("float", "bfloat", "complex")
# how far a named value lies above the logsumexp of the others
LEAST_LIKELY, MOST_LIKELY = 0.0, 1.5
FAMILIES: dict[str, str] = {
    "dense": "as get_inputs() returns them",
    "scaled": "multiplied by 3 to 100",
    "small": "divided by 10 to 300; masks all false",
    "shifted": "shifted by twenty standard deviations",
    "negative": "no positive values, where there are negative ones",
    "spike": "one random element a hundred times the largest, and one far below all others",
    "uneven": "some random elements so large that they decide a sum over all",
    "raised": "some random elements at eight times the largest",
    "moved": (
        "most slices along some axes, and blocks of neighbours, narrower and shifted within the "
        "range of all values"
    ),
    "ends": (
        "all values close to one end of their range, some at the other end; where `uneven` cannot "
        "be used"
    ),
    "above": "shifted up by twenty standard deviations, some random elements as far below zero",
    "below": "shifted down by twenty standard deviations, some random elements as far above zero",
    "gathered": (
        "in each row a large part of every value moved to a few random elements, so that the row's "
        "sum stays; where `uneven` cannot be used"
    ),
    "sparse": (
        "integers of up to 16 bits and 8-bit floats at the value nearest 0, a few at an extreme; "
        "masks nearly all true or all false; others as get_inputs() returns them"
    ),
    "clustered": (
        "integers, masks and 8-bit floats in an order in which neighbours are alike; others as "
        "get_inputs() returns them"
    ),
    "named": (
        "in each row the value that an integer input indexes so large that it dominates the softmax"
    ),
    "edges": (
        "first and last index of each axis several times as large; indices at the ends of their "
        "range"
    ),
    "zeros": "an eighth and the last row zero; indices repeated",
    "ties": "few different values; masks all true",
    "exact": "0 and 1 (and -1 where there are negative values), whose sums and products are exact",
    "special": "one tensor with NaN, infinities, signed zero, the smallest and largest numbers",
    "grown": "as get_inputs() returns them, with parameters as large as training may make them",
    "uneven parameters": "as get_inputs() returns them, with large parameters as `uneven` inputs",
    "raised parameters": "as get_inputs() returns them, with large parameters as `raised` inputs",
    "moved parameters": "as get_inputs() returns them, with parameters as `moved` inputs",
}
PLAIN = ("dense", "grown", "uneven parameters", "raised parameters", "moved parameters")


def upstream(outputs: Sequence[tuple[list[int], Any]], seed: int, device: str = "cpu") -> list[Any]:
    """Draw unpredictable gradients with respect to outputs of these shapes and dtypes, on a device.
    They have random signs and magnitudes from 0.5 to 1.5, so that an output of few elements, such
    as a loss, never gets a vanishing one."""
    import torch

    generator = torch.Generator(device).manual_seed(seed)
    gradients = []
    for shape, dtype in outputs:
        parts = [*shape, 2] if dtype.is_complex else shape
        signs = torch.randint(2, parts, generator=generator, device=device) * 2 - 1
        values = (torch.rand(parts, generator=generator, device=device) + 0.5) * signs
        gradients.append((torch.view_as_complex(values) if dtype.is_complex else values).to(dtype))
    return gradients


def vary(inputs: list[Any], family: str, seed: int) -> list[Any]:
    """Return a new list with every tensor varied, also inside lists, tuples and dicts, on the
    device of the inputs. The original is not changed. PLAIN families return the inputs
    themselves."""
    import torch

    if family in PLAIN:
        return inputs
    tensors = tensors_of(inputs)
    generator = torch.Generator(tensors[0].device if tensors else "cpu").manual_seed(seed)
    variation: list[Any] = replace_tensors(inputs, _vary_tensors(tensors, family, generator))
    return variation


def _vary_tensors(tensors: list[Any], family: str, generator: Any) -> list[Any]:
    if family == "named":
        return _raise_targets(tensors, generator)
    numbers = set(range(len(tensors)))
    if family == "special":
        floating = [i for i, t in enumerate(tensors) if t.is_floating_point() and t.numel()]
        numbers = {floating[pick(len(floating), generator)]} if floating else set()
    return [
        _vary(t, family, generator) if i in numbers and t.numel() else t
        for i, t in enumerate(tensors)
    ]


def are_exact(inputs: Any) -> bool:
    """Return whether all continuous inputs hold only the values of `exact`."""
    import torch

    def exact(tensor: Any) -> bool:
        parts = torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor
        wide = parts if parts.element_size() > 2 else parts.float()
        return bool(((wide == 0) | (wide.abs() == 1)).all())

    continuous = (t for t in tensors_of(inputs) if t.is_floating_point() or t.is_complex())
    return all(map(exact, continuous))


def _vary(tensor: Any, family: str, generator: Any) -> Any:
    """Return the varied values in the layout of the tensor; an expanded axis stays expanded."""
    import torch

    base = tensor[tuple(slice(0, 1) if step == 0 else slice(None) for step in tensor.stride())]
    if overlaps(base.shape, base.stride()):  # windows: all that they look at is varied
        memory = base.as_strided((_reach(base.shape, base.stride()),), (1,))
        varied = _vary(memory, family, generator).as_strided(base.shape, base.stride())
        return varied.expand(tensor.shape)
    values = base.clone(memory_format=torch.contiguous_format).resolve_conj()
    out = torch.empty_strided(base.shape, base.stride(), dtype=base.dtype, device=base.device)
    return out.copy_(_changed(values, family, generator)).expand(tensor.shape)


def _changed(values: Any, family: str, generator: Any) -> Any:
    """Return new values for those of a contiguous tensor, which may be changed in place."""
    import torch

    if values.dtype == torch.bool:
        return change_mask(values, family, generator)
    if values.is_complex():
        if family == "edges" or family not in FLOATING:
            return FLOATING.get(family, _unchanged)(values, generator)
        parts = _change_finite(torch.view_as_real(values), family, [], generator)
        return torch.view_as_complex(parts)
    if not values.is_floating_point():
        return change_integers(values, family, generator)
    if family in (SPARSE, CLUSTERED):
        return change_eight_bits(values, family, generator) if is_float8(values) else values
    axes = sorted_axes(values)
    if not is_float8(values):
        return _change_finite(values, family, axes, generator)
    changed = _change_finite(values.float(), family, axes, generator)
    limits = torch.finfo(values.dtype)
    return changed.clamp(limits.min, limits.max).to(values.dtype)


def _change_finite(values: Any, family: str, axes: list[tuple[int, bool]], generator: Any) -> Any:
    """Return new values where the present ones are finite: missing and masked ones say nothing
    about the range. axes: see sorted_axes."""
    import torch

    finite = values.isfinite()
    if finite.all():
        return sorted_values.vary(values, family, axes, generator)
    if family == "special" or not finite.any():
        return values
    filled = torch.where(finite, values, values[finite][0])
    return torch.where(finite, sorted_values.vary(filled, family, axes, generator), values)


def _unchanged(values: Any, generator: Any) -> Any:
    return values


def without_effect(leaves: Sequence[tuple[Sequence[int], Sequence[int], str]]) -> set[str]:
    """Return the families that change none of these tensors, given by shape, strides and dtype, or
    only the order of integers."""
    dtypes = [dtype for _, _, dtype in leaves]
    # overlapping integers may name values, but overlapping values are not named one by one
    named = [
        (shape, dtype)
        for shape, stride, dtype in leaves
        if "int" in dtype or not overlaps(shape, stride)
    ]
    families = set() if names(named) else {"named"}
    if not any(map(may_be_sparse, dtypes)):
        families.add(SPARSE)
    if not any(map(may_be_clustered, dtypes)):
        families.add(CLUSTERED)
    if not any(dtype.startswith(_CONTINUOUS) for dtype in dtypes):
        families |= {"uneven", "raised", "moved", "ends", "gathered", "above", "below"}
    return families


def names(leaves: Sequence[tuple[Sequence[int], str]]) -> bool:
    """Return whether one of these tensors, given by shape and dtype, may index one value in each
    row of another along some axis, as the targets of a loss do."""
    return bool(
        [
            axis
            for shape, dtype in leaves
            for other, kind in leaves
            if dtype in _WIDE and kind in _INDICES
            for axis in _named_axes(shape, other)
        ]
    )


def _named_axes(shape: Sequence[int], other: Sequence[int]) -> list[int]:
    """Return the axes whose removal turns the first shape into the second."""
    shape, other = list(shape), list(other)
    return [
        axis
        for axis, extent in enumerate(shape)
        if extent > 1
        and other in (shape[:axis] + shape[axis + 1 :], [*shape[:axis], 1, *shape[axis + 1 :]])
    ]


def _raise_targets(inputs: list[Any], generator: Any) -> list[Any]:
    """Raise the values that integer inputs index, as a trained model does for its targets. The loss
    is then small, and the sum over all other values decides it noticeably, which a loss of about 12
    in 16 bits would hide. Indices out of range, of rows that do not count, are ignored."""
    import torch

    results = list(inputs)
    tensors = [(at, t) for at, t in enumerate(inputs) if t.numel()]
    for at, tensor in tensors:
        pairs = [
            (axis, other)
            for _, other in tensors
            if str(tensor.dtype).removeprefix("torch.") in _WIDE
            and str(other.dtype).removeprefix("torch.") in _INDICES
            for axis in _named_axes(tensor.shape, other.shape)
        ]
        if not pairs or overlaps(tensor.shape, tensor.stride()):
            continue
        axis, other = pairs[pick(len(pairs), generator)]
        count = tensor.shape[axis]
        index = other.reshape([*tensor.shape[:axis], 1, *tensor.shape[axis + 1 :]]).long()
        inside = (index >= 0) & (index < count)
        index = index.clamp(0, count - 1)
        wide = tensor if tensor.dtype == torch.float64 else tensor.float()
        others = wide.scatter(axis, index, -torch.inf).logsumexp(axis, keepdim=True)
        draw = torch.rand(index.shape, generator=generator, device=index.device)
        likely = others + LEAST_LIKELY + (MOST_LIKELY - LEAST_LIKELY) * draw
        likely = torch.where(inside, likely, wide.gather(axis, index)).to(tensor.dtype)
        room = torch.empty_strided(
            tensor.shape, tensor.stride(), dtype=tensor.dtype, device=tensor.device
        )
        results[at] = room.copy_(tensor).scatter_(axis, index, likely)
    return results


def overlaps(shape: Sequence[int], stride: Sequence[int]) -> bool:
    """Return whether elements share memory, as in an expanded tensor or in sliding windows."""
    return math.prod(shape) > _reach(shape, stride)


def _reach(shape: Sequence[int], stride: Sequence[int]) -> int:
    """Return how many elements lie between the first and the last one, both included."""
    return 1 + sum((n - 1) * step for n, step in zip(shape, stride, strict=True))
