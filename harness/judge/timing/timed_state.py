"""Checks what timed calls leave in the parameters and buffers that the reference's forward updates.

The values are read from the memory of the stopped process, on the host or on a device, after its
last call, so that it cannot bring them up to date when it is asked. Only a tensor that is not where
it lay before the calls is taken from the process's own report: it was assigned anew, it is not
contiguous, or the judge cannot read its device memory.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from .. import candidate_state
from ..correctness import oracle
from ..correctness.distance import same_bits
from ..exchange.case_pool import CasePool
from ..exchange.input_sets import InputSet
from ..processes.worker import Worker
from ..tasks.drawer import Drawer
from .timed_outputs import WrongWhenTimed

if TYPE_CHECKING:
    import torch


@dataclass
class _Left:
    """What the calls of one half left. state: the seed of the parameters that they began with."""

    state: int
    calls: list[InputSet]
    values: dict[str, torch.Tensor]


class TimedState:
    """The state of one candidate in one block."""

    def __init__(self, pool: CasePool, worker: Worker, drawer: Drawer) -> None:
        self._pool, self._worker, self._drawer = pool, worker, drawer
        initial = drawer.initial_state(pool)
        self._like = {name: initial[name] for name in pool.updated}
        self._places: dict[str, int] = {}
        self._seen: dict[str, torch.Tensor] = {}
        self._left: list[_Left] = []

    def begin(self) -> None:
        """Note where the tensors lie, before the calls of a half."""
        self._places = candidate_state.places(self._worker, self._pool.name, list(self._like))

    def look(self) -> None:
        """Read the tensors after the last call, while the process is stopped."""
        self._seen = {
            name: value
            for name, address in self._places.items()
            if (value := candidate_state.read(self._worker, address, self._like[name])) is not None
        }

    def end(self, state: int, calls: list[InputSet]) -> None:
        """Keep what the calls of a half left, to be verified later."""
        values = candidate_state.ask(self._worker, self._pool.name, self._like)
        places = candidate_state.places(self._worker, self._pool.name, list(self._like))
        values |= {
            name: value
            for name, value in self._seen.items()
            if places.get(name) == self._places[name]
        }
        self._left.append(_Left(state, calls, values))

    def verify(self) -> None:
        """Compare with the reference after the same calls. Raises WrongWhenTimed."""
        for left in self._left:
            expected = self._drawer.left_after(self._pool, left.state, left.calls)
            for name, reference in expected.items():
                value, framework = left.values[name], reference.framework
                # an overflow in one call stays, and another right order of operations has none
                lost = ~(framework.isfinite() & reference.expected.isfinite())
                finding = oracle.compare(
                    value.masked_fill(lost, 0),
                    reference.expected.masked_fill(lost, 0),
                    reference.allowance,
                    framework.masked_fill(lost, 0),
                )
                if finding.signal is not None:
                    unchanged = same_bits(left.values[name], self._like[name])
                    here = "it is left unchanged" if unchanged else finding.detail
                    text = f"the reference updates {name} in each call, but here {here}"
                    raise WrongWhenTimed(
                        self._pool.name,
                        replace(finding, signal="wrong.state", detail=text),
                        "the state after the timed calls is wrong",
                    )
        self._left.clear()
