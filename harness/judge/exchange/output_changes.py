"""Changes of outputs, as any caller may make them.

A candidate that reuses parts of an earlier output, because nothing refers to it any more or because
it relies on freed memory staying unchanged, is right only as long as no caller changes outputs. So
a few outputs of every turn are changed in one element each, after they were checked for the last
time. It gets the value of another element or changed bits of its own, so that nobody can look for
what a change leaves.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...wire.layouts import contiguous_strides
from .worker_outputs import read_memory, write_memory

if TYPE_CHECKING:
    from .worker_outputs import OutputPlace

MOST_CHANGED = 4  # calls of a turn; one element of a reused buffer is enough to reveal it
MAY_BE_CHANGED = (
    "One element alone is wrong: callers may change outputs, and one element of some is changed "
    "after each turn. If memory is used again, write all of each output in its own call"
)


def change(process: int, calls: Sequence[tuple[Sequence[OutputPlace], Sequence[int]]]) -> None:
    """Change one element of each output of some of these calls, while the process is stopped.
    calls: the outputs of each call, with the indices of those to leave unchanged. Raises OSError,
    with EFAULT for read-only memory."""
    for outputs, exempt in random.sample(calls, min(MOST_CHANGED, len(calls))):
        for number, output in enumerate(outputs):
            if output.size and number not in exempt:
                where, item = _element(output)
                other, _ = _element(output)
                present, value = bytearray(item), bytearray(item)
                parts = [(where, memoryview(present)), (other, memoryview(value))]
                read_memory(process, parts)
                # a near value may go unnoticed: in half of the changes another exponent
                if value == present or random.random() < 0.5:
                    bit = 1 if output.leaf.get("dtype") == "bool" else 64
                    value = bytearray(byte ^ bit for byte in present)
                write_memory(process, where, bytes(value))


def find_overlap(outputs: Sequence[OutputPlace], together: Sequence[int]) -> tuple[int, int] | None:
    """Find two outputs of a call that share memory although the reference's do not; changing one
    would change the other. together: see InputSet.memory. Outputs with gaps may be interleaved."""
    plain = [n for n in range(len(together)) if outputs[n].strides is None and outputs[n].size]
    ordered = sorted(plain, key=lambda n: outputs[n].address)
    for first, second in itertools.pairwise(ordered):
        end = outputs[first].address + outputs[first].size
        if outputs[second].address < end and together[first] != together[second]:
            return min(first, second), max(first, second)
    return None


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
