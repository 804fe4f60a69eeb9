"""What a caller may do with an output that it was given: change it, and let go of it.

Who keeps a part of an output for the next one, because nobody refers to it any more, or trusts that
freed memory stays as it was, is right as long as nobody does so. A few outputs of every turn are
changed in one element each, once they were looked at for the last time.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...wire import buffers
from ...wire.layouts import contiguous_strides
from .worker_outputs import write_memory

if TYPE_CHECKING:
    import torch

    from .worker_outputs import OutputPlace

MOST_CHANGED = 4  # calls of a turn; one element of a buffer that serves again is enough
CHANGED = (
    "an output has what its caller wrote into an earlier one: memory serves again of which a part "
    "was taken to be as it was. Whoever is given an output may change it. Write all of each output "
    "in its own call"
)


def change(process: int, calls: Sequence[tuple[Sequence[OutputPlace], Sequence[int]]]) -> None:
    """Write one element of each output of some of these calls, for which the process is stopped.
    Beside the outputs of a call stand the numbers of those that are left alone. Raises OSError,
    EFAULT where nobody may write."""
    for outputs, exempt in random.sample(calls, min(MOST_CHANGED, len(calls))):
        for number, output in enumerate(outputs):
            if output.size and number not in exempt:
                where, item = _element(output)
                write_memory(process, where, bytes([buffers.FILL]) * item)


def find_overlap(outputs: Sequence[OutputPlace], together: Sequence[int]) -> tuple[int, int] | None:
    """Two outputs of a call that lie in the same memory, and in the reference do not: who changes
    one changes the other. together: see InputSet. Those with gaps may lie in each other's."""
    plain = [n for n in range(len(together)) if outputs[n].strides is None and outputs[n].size]
    ordered = sorted(plain, key=lambda n: outputs[n].address)
    for first, second in itertools.pairwise(ordered):
        end = outputs[first].address + outputs[first].size
        if outputs[second].address < end and together[first] != together[second]:
            return min(first, second), max(first, second)
    return None


def shows_change(output: torch.Tensor) -> bool:
    """Whether an output has an element that was written so."""
    import torch

    flat = output.contiguous().reshape(-1).view(torch.uint8).view(-1, output.element_size())
    return bool((flat == buffers.FILL).all(dim=1).any())


def _element(output: OutputPlace) -> tuple[int, int]:
    """Address and bytes of one of its elements."""
    shape = output.leaf["shape"]
    strides = output.strides or contiguous_strides(shape)
    count = 1
    for extent in shape:
        count *= extent
    item = output.leaf["nbytes"] // count
    steps = (random.randrange(extent) * step for extent, step in zip(shape, strides, strict=True))
    return output.address + item * sum(steps), item
