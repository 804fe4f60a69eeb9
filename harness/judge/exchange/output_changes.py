"""Changes of outputs, as any caller may make them.

A candidate that reuses parts of an earlier output, because nothing refers to it any more or because
it relies on freed memory staying unchanged, is right only as long as no caller changes outputs. And
where outputs have parts that no input decides, memory that holds an earlier output holds most of a
later one. So all outputs of a turn are overwritten after they were checked for the last time, but
for those that are kept for a while, and memory that the reference uses again itself. In some turns
one of them gets a change of one element instead, the value of another one or changed bits of its
own, so that nobody can tell from a few elements whether an output was changed.
"""

from __future__ import annotations

import math
import os
import random
from collections.abc import Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING

from ...wire import buffers
from ...wire.layouts import contiguous_strides
from .worker_outputs import read_memory, write_memory

if TYPE_CHECKING:
    from .worker_outputs import OutputPlace

SLIGHT_SHARE = 0.5  # of the turns: one of the outputs is changed in one element only
NOISE_BYTES = 1 << 20
MAY_BE_CHANGED = (
    "One element alone is wrong: callers may change outputs, and they are overwritten or changed "
    "in one element after each turn. If memory is used again, write all of each output in its own "
    "call"
)


def change(process: int, calls: Sequence[tuple[Sequence[OutputPlace], Sequence[int]]]) -> None:
    """Change the outputs of these calls while the process is stopped. calls: the outputs of each
    call, with the indices of those to leave unchanged. Raises OSError, with EFAULT for read-only
    memory."""
    slight = random.randrange(len(calls)) if calls and random.random() < SLIGHT_SHARE else None
    for call, (outputs, exempt) in enumerate(calls):
        for number, output in enumerate(outputs):
            if output.size and number not in exempt:
                (_change_element if call == slight else overwrite)(process, output)


def overwrite(process: int, output: OutputPlace) -> None:
    """Write random bytes to all elements of an output, and to nothing between them."""
    if output.strides is None:
        noise = _noise(output.leaf.get("dtype") == "bool")
        write_memory(process, list(_parts(output.address, output.size, noise)))
        return
    spread = memoryview(bytearray(output.size))
    read_memory(process, [(output.address, spread)])
    leaf = {**output.leaf, "offset": 0}
    dense = memoryview(bytearray(leaf["nbytes"]))
    noise = _noise(leaf.get("dtype") == "bool")
    for offset, part in _parts(0, len(dense), noise):
        dense[offset : offset + len(part)] = part
    strided = {**leaf, "stride": output.strides, "nbytes": output.size}
    try:
        buffers.tensor(spread, strided).copy_(buffers.tensor(dense, leaf))
    except RuntimeError:  # elements that lie in the same place, of an expanded tensor
        _change_element(process, output)
    else:
        write_memory(process, [(output.address, spread)])


def _change_element(process: int, output: OutputPlace) -> None:
    where, item = _element(output)
    other, _ = _element(output)
    present, value = bytearray(item), bytearray(item)
    read_memory(process, [(where, memoryview(present)), (other, memoryview(value))])
    # a near value may go unnoticed: in half of the changes another exponent
    if value == present or random.random() < 0.5:
        bit = 1 if output.leaf.get("dtype") == "bool" else 64
        value = bytearray(byte ^ bit for byte in present)
    write_memory(process, [(where, memoryview(value))])


@cache
def _noise(is_bool: bool) -> memoryview:
    noise = os.urandom(NOISE_BYTES)
    # in writable memory, whose address can be taken
    return memoryview(bytearray(byte & 1 for byte in noise) if is_bool else bytearray(noise))


def _parts(start: int, size: int, noise: memoryview) -> Iterator[tuple[int, memoryview]]:
    """Yield where each part of so many bytes from `start` is, and what to write there."""
    most = len(noise) // 2
    for offset in range(0, size, most):
        first = random.randrange(most)
        yield start + offset, noise[first : first + min(most, size - offset)]


def find_overlap(outputs: Sequence[OutputPlace], together: Sequence[int]) -> tuple[int, int] | None:
    """Find two outputs of a call that share memory although the reference's do not; changing one
    would change the other. together: see InputSet.memory. Outputs with gaps may be interleaved."""
    filled = [n for n in range(len(together)) if outputs[n].size]
    ordered = sorted(filled, key=lambda n: outputs[n].address)
    for place, first in enumerate(ordered):
        end = outputs[first].address + outputs[first].size
        for second in ordered[place + 1 :]:
            if outputs[second].address >= end:
                break
            both = outputs[first], outputs[second]
            if together[first] != together[second] and (
                all(map(_is_dense, both)) or _share_elements(*both)
            ):
                return min(first, second), max(first, second)
    return None


def _is_dense(output: OutputPlace) -> bool:
    """Return whether an output fills its range, in whatever order of the axes."""
    return output.strides is None or output.size == output.leaf["nbytes"]


def _share_elements(first: OutputPlace, second: OutputPlace) -> bool:
    """Return whether an element of one output lies where one of the other does. first: which begins
    first."""
    import torch

    size = max(each.address + each.size for each in (first, second)) - first.address
    taken = torch.zeros(size, dtype=torch.bool)

    def elements(output: OutputPlace) -> torch.Tensor:
        shape = output.leaf["shape"]
        item = output.leaf["nbytes"] // math.prod(shape)
        steps = output.strides or contiguous_strides(shape)
        shown = [extent if step else 1 for extent, step in zip(shape, steps, strict=True)]
        strides = [item * step for step in steps]
        return taken.as_strided((*shown, item), (*strides, 1), output.address - first.address)

    elements(first)[...] = True
    return bool(elements(second).any())


def _element(output: OutputPlace) -> tuple[int, int]:
    """Return address and bytes of a random element of an output."""
    shape = output.leaf["shape"]
    strides = output.strides or contiguous_strides(shape)
    count = 1
    for extent in shape:
        count *= extent
    item = output.leaf["nbytes"] // count
    steps = (random.randrange(extent) * step for extent, step in zip(shape, strides, strict=True))
    return output.address + item * sum(steps), item
