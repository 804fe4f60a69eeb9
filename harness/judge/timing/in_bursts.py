"""Sides on a device that shares no memory with the judge, whose calls are queued all at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..exchange import bursts
from ..exchange.input_sets import InputSet
from ..exchange.slots import BurstResult
from ..processes.freezing import Turn
from .sides import WARM_BURSTS, Burst, Sides


class InBursts(Sides):
    """Sides on a device where the calls of a burst are queued together and the process measures
    their time."""

    def _settle(self, name: str, place: Any, turn: Turn) -> int:
        for _ in range(WARM_BURSTS):
            with turn(self.workers[name].root):
                result = self._run(name, [self.warm_set], [0] * self.pool.calls)
        # the same for all bursts of the block, since the judge's clock includes it
        self.queue_ns = max(self.queue_ns, result.queued_ns)
        return result.inside_ns

    def _burst(self, name: str, sets: Sequence[InputSet], place: Any, turn: Turn) -> Burst:
        with turn(self.workers[name].root):
            result = self._run(name, sets, list(range(len(sets))), bursts.patience(self.queue_ns))
        self.slots[name].put(place)
        return Burst(
            result.inside_ns,
            result.outside_ns,
            result.minor_faults,
            result.switches,
            result.queued_ns,
        )

    def _run(
        self, name: str, sets: Sequence[InputSet], order: list[int], queue_ns: int = 0
    ) -> BurstResult:
        result = bursts.run(
            self.workers[name],
            self.slots[name],
            self.keys[name],
            sets,
            order,
            self.seconds,
            queue_ns=queue_ns,
        )
        self.note_calls(name, [sets[number] for number in order])
        return result
