"""Calls whose inputs take the places of earlier ones, as a program's do: it fills one buffer again,
and new tensors get the memory of those that are gone. Whoever keeps results by the id, the address
or the version of an input returns an old one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..wire.layouts import span
from ..wire.nesting import replace_tensors, tensors_of

Call = Callable[[Any], list[Any]]


def reuse(call: Call) -> Call:
    """Return a call that copies its inputs: in turn into new tensors, after the last ones are gone,
    and into the tensors of the call before."""
    memory: list[Any] = []
    tensors: list[Any] = []

    def renewed(inputs: Any) -> list[Any]:
        originals = tensors_of(inputs)
        values = [flat(tensor) for tensor in originals]
        filled_again = bool(tensors)
        if filled_again:
            for place, value in zip(memory, values, strict=True):
                place.copy_(value)
        else:
            memory.extend(value.clone() for value in values)
            for place, like in zip(memory, originals, strict=True):
                tensors.append(place.as_strided(like.shape, like.stride()))
        # copied: an output may lie in an input, which the next call changes
        outputs = [output.detach().clone() for output in call(replace_tensors(inputs, tensors))]
        while filled_again and tensors:
            tensors.pop()  # the last first: what is freed last is allocated first
        while filled_again and memory:
            memory.pop()
        return outputs

    return renewed


def flat(tensor: Any) -> Any:
    """Return the memory of a tensor from its first to its last element."""
    return tensor.as_strided((span(tensor.shape, tensor.stride()),), (1,))
