"""Calls whose inputs take the places of earlier ones, as a program's do: it fills one buffer again,
and new tensors get the memory of those that are gone. Whoever keeps results by the id, the address
or the version of an input returns an old one."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from ..wire.layouts import span
from ..wire.nesting import replace_tensors, tensors_of

Call = Callable[[Any], list[Any]]


def reuse(call: Call) -> Call:
    """Return a call that copies its inputs: of three in a row, the first into new tensors, the
    second into others in the places of these, unless somebody holds them, and the third into the
    tensors of the second."""
    memory: list[Any] = []
    tensors: list[Any] = []
    uses: list[int] = []  # of the memory, by this function alone
    number = itertools.count()

    def renewed(inputs: Any) -> list[Any]:
        originals = tensors_of(inputs)
        values = [flat(tensor) for tensor in originals]
        turn = next(number) % 3
        if turn == 2:
            for place, value in zip(memory, values, strict=True):
                place.copy_(value)
        else:
            free = bool(memory) and all(uses) and uses == [_uses(place) for place in memory]
            memory[:] = (
                [_anew(*pair) for pair in zip(memory, values, strict=True)]
                if free
                else [value.clone() for value in values]
            )
            uses[:] = [_uses(place) for place in memory]
            for place, like in zip(memory, originals, strict=True):
                tensors.append(place.as_strided(like.shape, like.stride()))
        # copied: an output may lie in an input, which the next call changes
        outputs = [output.detach().clone() for output in call(replace_tensors(inputs, tensors))]
        if turn != 1:
            tensors.clear()
        if turn == 2:
            memory.clear()
        return outputs

    return renewed


def _anew(place: Any, value: Any) -> Any:
    """Write a value to the memory of a tensor. Returns another tensor there, which was never
    written."""
    place.data.copy_(value)
    return place.data  # has a version of its own


def _uses(tensor: Any) -> int:
    """Return by how many tensors its memory is held, and by this function; 0 if unknown."""
    import torch

    count = getattr(torch._C, "_storage_Use_Count", None)
    return int(count(tensor.untyped_storage()._cdata)) if count else 0


def flat(tensor: Any) -> Any:
    """Return the memory of a tensor from its first to its last element."""
    return tensor.as_strided((span(tensor.shape, tensor.stride()),), (1,))
