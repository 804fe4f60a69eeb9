"""What calls of the reference leave in the parameters and buffers that its forward updates."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from ...wire import buffers, dtypes, memory_files
from ..correctness import tolerance
from ..correctness.distance import same_bits
from ..exchange.case_pool import CasePool
from ..exchange.input_sets import InputSet, LeftValue
from ..processes.worker import Worker
from .task_workers import TASK_SECONDS

if TYPE_CHECKING:
    import torch

# integers are foreseen from so many on: a counter is no work, but of a number nobody knows what
# went into it
FORESEEN = 256
# a part that counts: in a histogram, two draws may add as much to an element by chance
FORESEEN_SHARE, MOST_CHAINS = 1 / 16, 4
# bytes relative to the original values, at most: 64-bit values for 8-bit ones
_WAYS = {"expected": 8, "framework": 1, "moved": 8}


class Updates:
    """Asks one reference worker. set_state: puts the reference into a state of its parameters."""

    def __init__(self, worker: Worker, set_state: Callable[[CasePool, int], int]) -> None:
        self._worker, self._set_state = worker, set_state

    def after_one(self, pool: CasePool, input_set: InputSet) -> dict[str, LeftValue]:
        """Return the values as one call in the initial state on the first checking set leaves them.
        Raises WorkerFailed."""
        if not pool.left_state:
            pool.left_state = self.after(pool, 0, [input_set])
        return pool.left_state

    def foreseen(self, pool: CasePool, initial: Mapping[str, torch.Tensor]) -> set[str]:
        """Return what the reference updates without looking at the inputs, wholly or in a part that
        counts, such as an average of its parameters. Who knows the parameters can compute these for
        all calls to come. initial: the values as constructed. Raises WorkerFailed."""
        if pool.foreseen is None:
            sets = [input_set for state, input_set in pool.checking if state == 0][:MOST_CHAINS]
            # several calls: an update may depend on the inputs of the call before
            chains = [
                self.after(pool, 0, [one, one, other])
                for one, other in zip(sets, [*sets[1:], sets[0]], strict=True)
            ]
            pool.foreseen = {
                name
                for name in pool.updated
                if _is_foreseen([chain[name].framework for chain in chains], initial[name])
            }
        return pool.foreseen

    def after(self, pool: CasePool, state: int, sets: Sequence[InputSet]) -> dict[str, LeftValue]:
        """Return the values as calls on these sets, one after another, leave them that began in a
        state of the parameters. Raises WorkerFailed."""
        before = pool.states.current
        pool.states.current = None  # sets that were drawn since may have updated the reference
        try:
            self._set_state(pool, state)
            return self._ask(pool, sets)
        finally:
            if before is not None:
                self._set_state(pool, before)

    def _ask(self, pool: CasePool, sets: Sequence[InputSet]) -> dict[str, LeftValue]:
        size = int(pool.describe["state_layout"]["bytes"])
        fds = [memory_files.create(name, factor * size) for name, factor in _WAYS.items()]
        try:
            layouts = self._worker.data(
                self._worker.ask(
                    "left_state",
                    fds,
                    seconds=TASK_SECONDS,
                    case=pool.name,
                    seeds=[each.seed for each in sets],
                    families=[each.family for each in sets],
                    names=pool.updated,
                )
            )
            ways = [buffers.read(fd, layouts[name]) for fd, name in zip(fds, _WAYS, strict=True)]
            terms = max(pool.reductions)
            return {
                name: LeftValue(
                    precise, rounded, tolerance.derive_carried(precise, rounded, moved, terms)
                )
                for name, precise, rounded, moved in zip(pool.updated, *ways, strict=True)
            }
        finally:
            for fd in fds:
                os.close(fd)


def _is_foreseen(values: Sequence[torch.Tensor], initial: torch.Tensor) -> bool:
    """Whether elements are updated alike by calls on different inputs."""
    if not dtypes.rounds(initial.dtype):
        few = initial.numel() < FORESEEN
        return not few and all(same_bits(values[0], value) for value in values[1:])
    first, before = dtypes.comparable(values[0]), dtypes.comparable(initial)
    alike = first != before
    for value in values[1:]:
        alike &= dtypes.comparable(value) == first
    return int(alike.sum()) > FORESEEN_SHARE * initial.numel()
