"""What calls of the reference leave in the parameters and buffers that its forward updates."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from ...wire import buffers, dtypes, memory_files
from ...wire.layouts import Layout, plan_layout
from ...workers import parameter_states
from ..correctness import tolerance
from ..errors import WorkerFailed
from ..exchange.case_pool import CasePool
from ..exchange.input_sets import InputSet, LeftValue
from ..processes.worker import Worker
from .task_workers import TASK_SECONDS

if TYPE_CHECKING:
    import torch

# integers, and floats that stay whole, are foreseen from so many on: a counter is no work, but of
# another number nobody knows what went into it
FORESEEN = 16
# calls by which other values are tried, and that are made where those do not fit
TRIED, MOST_CALLS = 3, 16
# a part that counts: in a histogram, two draws may add as much to an element by chance
FORESEEN_SHARE, CHAINS = 1 / 16, 4
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
            calls = [("dense", secrets.randbits(48)) for _ in range(CHAINS)]
            # several calls: an update may depend on the inputs of the call before
            chains = []
            for one, other in zip(calls, [*calls[1:], calls[0]], strict=True):
                left = self._values(pool, 0, [one, one, other], ["expected", "framework"], [3])
                chains.append(left[3]["framework"])
            pool.foreseen = {
                name
                for number, name in enumerate(pool.updated)
                if is_foreseen([chain[number] for chain in chains], initial[name])
            }
        return pool.foreseen

    def other_values(
        self, pool: CasePool, state: int, initial: Mapping[str, torch.Tensor]
    ) -> dict[str, torch.Tensor]:
        """Return values of what calls update that nobody knows: as for a change of the parameters,
        or, where the reference does not work with such, as a few calls leave them in a state of the
        parameters. initial: the values as constructed. Raises WorkerFailed."""
        device = "cuda" if pool.shared else "cpu"
        before = {name: initial[name] for name in pool.updated}

        def draw() -> dict[str, torch.Tensor]:
            return parameter_states.renewed(before, parameter_states.draw("changed"), device)

        if pool.takes_other_values is None:
            pool.takes_other_values = self._works_with(pool, draw())
        if pool.takes_other_values:
            return draw()
        count = 1 + secrets.randbelow(MOST_CALLS)
        calls = [("dense", secrets.randbits(48)) for _ in range(count)]
        left = self._values(pool, state, calls, ["expected", "framework"], [count])[count]
        return dict(zip(pool.updated, left["framework"], strict=True))

    def _works_with(self, pool: CasePool, values: Mapping[str, torch.Tensor]) -> bool:
        """Whether calls that begin with these values return what they return otherwise, and leave
        numbers: a result may depend on what no call changes, a cache but for one line, say."""
        layout = plan_layout(list(values.values()))
        fd = memory_files.create("other", int(layout["bytes"]))
        try:
            buffers.write(fd, layout, list(values.values()))
            with self._in_state(pool, 0):
                found = self._worker.ask(
                    "works_with",
                    [fd],
                    seconds=TASK_SECONDS,
                    case=pool.name,
                    seeds=[secrets.randbits(48) for _ in range(TRIED)],
                    families=["dense"] * TRIED,
                    names=pool.updated,
                    layout=layout,
                )
            return bool(self._worker.data(found))
        except WorkerFailed:
            return False
        finally:
            os.close(fd)

    @contextlib.contextmanager
    def _in_state(self, pool: CasePool, state: int) -> Iterator[None]:
        """Put the reference into a state, and back afterwards."""
        before = pool.states.current
        pool.states.current = None  # sets that were drawn since may have updated the reference
        self._set_state(pool, state)
        try:
            yield
        finally:
            if before is not None:
                pool.states.current = None  # calls may have updated it
                self._set_state(pool, before)

    def ignores_modes(self, pool: CasePool, state: int = 0) -> bool:
        """Return whether the reference, in a state of the parameters, returns the same in
        evaluation mode, on the sets that are called in it: modes may differ for others only (a
        bound, a capacity). Raises WorkerFailed."""
        if state not in pool.ignores_modes:
            sets = [input_set for its_state, input_set in pool.checking if its_state == state][:2]
            if not sets:
                return False
            with self._in_state(pool, state):
                found = self._worker.ask(
                    "ignores_modes",
                    seconds=TASK_SECONDS,
                    case=pool.name,
                    seeds=[each.seed for each in sets],
                    families=[each.family for each in sets],
                )
            pool.ignores_modes[state] = bool(self._worker.data(found))
        return pool.ignores_modes[state]

    def after(
        self, pool: CasePool, state: int, sets: Sequence[InputSet], *, evaluating: bool = False
    ) -> dict[str, LeftValue]:
        """Return the values as calls on these sets, one after another, leave them that began in a
        state of the parameters. evaluating: in evaluation mode. Raises WorkerFailed."""
        return self.after_each(pool, state, sets, [len(sets)], evaluating=evaluating)[0]

    def after_each(
        self,
        pool: CasePool,
        state: int,
        sets: Sequence[InputSet],
        counts: Sequence[int],
        renewed: Mapping[str, torch.Tensor] | None = None,
        *,
        evaluating: bool = False,
    ) -> list[dict[str, LeftValue]]:
        """Return the same for each of these numbers of calls. renewed: values that all of it begins
        with instead. evaluating: see after. Raises WorkerFailed."""
        calls = [(each.family, each.seed) for each in sets]
        each_count = self._values(
            pool, state, calls, list(_WAYS), sorted(set(counts)), renewed, evaluating=evaluating
        )

        def values(ways: Mapping[str, Sequence[torch.Tensor]]) -> dict[str, LeftValue]:
            left = {}
            for name, precise, rounded, moved in zip(pool.updated, *ways.values(), strict=True):
                allowance, unsure = tolerance.derive_carried(
                    precise, rounded, moved, pool.reduction_of_state(name)
                )
                left[name] = LeftValue(precise, rounded, allowance, unsure)
            return left

        return [values(each_count[count]) for count in counts]

    def _values(
        self,
        pool: CasePool,
        state: int,
        calls: Sequence[tuple[str, int]],
        ways: Sequence[str],
        counts: Sequence[int],
        renewed: Mapping[str, torch.Tensor] | None = None,
        *,
        evaluating: bool = False,
    ) -> dict[int, dict[str, list[torch.Tensor]]]:
        """Return the updated tensors in these ways, by the number of calls. calls: family and seed
        of each. counts: ascending. renewed, evaluating: see after_each."""
        size = len(counts) * int(pool.describe["state_layout"]["bytes"])
        fds: list[int] = []
        try:
            fds += [memory_files.create(name, _WAYS[name] * size) for name in ways]
            begin: dict[str, Layout] = {}
            if renewed is not None:
                values = [renewed[name] for name in pool.updated]
                layout = begin["renewed"] = plan_layout(values)
                fds.append(memory_files.create("renewed", int(layout["bytes"])))
                buffers.write(fds[-1], layout, values)
            with self._in_state(pool, state):
                layouts = self._worker.data(
                    self._worker.ask(
                        "left_state",
                        fds,
                        seconds=TASK_SECONDS,
                        case=pool.name,
                        seeds=[seed for _, seed in calls],
                        families=[family for family, _ in calls],
                        names=pool.updated,
                        counts=list(counts),
                        evaluating=evaluating,
                        **begin,
                    )
                )
            found = {
                name: buffers.read(fd, layouts[name]) for fd, name in zip(fds, ways, strict=False)
            }
        finally:
            for fd in fds:
                os.close(fd)
        size = len(pool.updated)
        return {
            count: {way: found[way][size * n : size * (n + 1)] for way in ways}
            for n, count in enumerate(counts)
        }


def is_foreseen(values: Sequence[torch.Tensor], initial: torch.Tensor) -> bool:
    """Whether elements are updated alike by calls on different inputs. Counters are no work: few
    integers, or numbers that stay whole."""
    first = dtypes.comparable(values[0])
    alike = first != dtypes.comparable(initial)
    for value in values[1:]:
        alike &= dtypes.comparable(value) == first
    count, few = int(alike.sum()), initial.numel() < FORESEEN
    if not dtypes.rounds(initial.dtype):
        return count >= FORESEEN
    if few and not first.is_complex() and bool((first == first.round()).all()):
        return False
    return count > FORESEEN_SHARE * initial.numel()
