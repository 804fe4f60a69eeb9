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
MOST_TRIES, SMALL = 32, 1 << 20  # bytes


def reuse(call: Call) -> Call:
    """Return a call that copies its inputs: of three in a row, the first two into new tensors, the
    second after those of the first are gone, and the third into the tensors of the second."""
    memory: list[Any] = []
    tensors: list[Any] = []
    addresses: list[int] = []  # of those that are gone
    number = itertools.count()

    def renewed(inputs: Any) -> list[Any]:
        originals = tensors_of(inputs)
        values = [flat(tensor) for tensor in originals]
        kept = next(number) % 3 == 1
        if tensors:
            for place, value in zip(memory, values, strict=True):
                place.copy_(value)
        else:
            memory.extend(
                _clone_at(value, address)
                for value, address in itertools.zip_longest(values, addresses)
            )
            for place, like in zip(memory, originals, strict=True):
                tensors.append(place.as_strided(like.shape, like.stride()))
        # copied: an output may lie in an input, which the next call changes
        outputs = [output.detach().clone() for output in call(replace_tensors(inputs, tensors))]
        addresses[:] = [place.data_ptr() for place in memory]
        while tensors and not kept:
            tensors.pop()  # the last first: what is freed last is allocated first
        while memory and not kept:
            memory.pop()
        return outputs

    return renewed


def _clone_at(value: Any, address: int | None) -> Any:
    """Return a copy, at this address if it is free and found within a few tries."""
    others: list[Any] = []
    tries = MOST_TRIES if address and value.nbytes < SMALL else 1
    for _ in range(tries):
        copy = value.clone()
        if copy.data_ptr() == address:
            break
        others.append(copy)
    return copy


def flat(tensor: Any) -> Any:
    """Return the memory of a tensor from its first to its last element."""
    return tensor.as_strided((span(tensor.shape, tensor.stride()),), (1,))
