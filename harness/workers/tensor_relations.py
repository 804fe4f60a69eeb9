"""Relations between tensors: same shape and layout, equal, close, in the same memory."""

from __future__ import annotations

from typing import Any

from ..wire import dtypes
from ..wire.layouts import LINE
from ..wire.nesting import tensors_of


def specs(value: Any) -> list[Any]:
    """Return shape, strides and dtype of each tensor."""
    return [(t.shape, t.stride(), t.dtype) for t in tensors_of(value)]


def begins(value: Any) -> list[int]:
    """Return the byte of a line of memory at which each tensor begins, as far as its storage offset
    decides it. A kernel may need more alignment than a task's inputs have."""
    return [t.storage_offset() * t.element_size() % LINE for t in tensors_of(value)]


def held_bytes(outputs: list[Any], inputs: Any) -> int:
    """Return the bytes that stay allocated while the outputs are kept. A result of the framework
    may lie in a far larger allocation (smooth_l1_loss of torch 2.11 returns one number at the start
    of all its terms)."""
    input_storages = {t.untyped_storage().data_ptr() for t in tensors_of(inputs)}
    storages = {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in outputs}
    return sum(nbytes for place, nbytes in storages.items() if place not in input_storages)


def aliases(outputs: list[Any], inputs: Any) -> list[int]:
    """Return the indices of outputs that lie in the memory of inputs."""
    input_storages = {t.untyped_storage().data_ptr() for t in tensors_of(inputs)}
    return [n for n, t in enumerate(outputs) if t.untyped_storage().data_ptr() in input_storages]


def memory(one: list[Any], other: list[Any]) -> dict[str, list[int]]:
    """Describe where the reference's outputs lie, from two calls with equal inputs, the first of
    which are kept. same: indices of outputs in the same memory in both calls, such as parameters,
    cached tensors and inputs; callers must not change them. together: for each output the index of
    the first output that shares its memory."""
    places, others = ([t.untyped_storage().data_ptr() for t in each] for each in (one, other))
    both = zip(places, others, strict=True)
    return {
        "same": [number for number, (a, b) in enumerate(both) if a == b],
        "together": [places.index(place) for place in places],
    }


def same(a: Any, b: Any) -> bool:
    """Return whether tensors are equal in every element; NaN equals NaN."""
    import torch

    a, b = dtypes.comparable(a), dtypes.comparable(b)
    return bool(torch.equal(a, b)) or bool(((a == b) | ((a != a) & (b != b))).all())


def all_close(one: list[Any], other: list[Any]) -> bool:
    """Return whether tensors are equal up to the effects of reordering by threads."""
    import torch

    return all(
        torch.allclose(a.double(), b.double(), rtol=1e-3, atol=1e-5, equal_nan=True)
        for a, b in zip(one, other, strict=True)
    )
