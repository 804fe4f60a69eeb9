"""Outputs of earlier bursts that a worker on a device still holds: see held_outputs.

They lie where the judge took them, in memory of the worker's that is mapped here, so that it looks
by itself whether they are what they were: when no clock runs, and while the worker is stopped. The
worker holds what it was told to; which outputs are looked at it hears when their burst is over.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..processes.worker import Worker
from .case_pool import CasePool
from .device_copies import Lying, Taken
from .device_slots import DeviceSlots
from .held_outputs import Drawn, HeldOutputs

# Of outputs that are held together, one in any case; of one above which none is: the judge has a
# copy of each, and a case that fits a device shall go on fitting it.
HELD_BYTES, MOST_EACH_BYTES = 64 << 20, 1 << 30


class HeldOnDevice:
    """Of one worker, as long as its parameters stay. looks: whether they are looked at; a baseline
    holds as many, so that neither side has other memory than the other. kept: whether all that was
    looked at so far was what it had been."""

    def __init__(self, pool: CasePool, *, looks: bool) -> None:
        self._holds = pool.held_bytes <= MOST_EACH_BYTES
        self._looks, self.kept = looks, True
        self._outputs = HeldOutputs[list[Taken]](pool.held_bytes, HELD_BYTES)
        self._next: Drawn | None = None

    def tell(self, worker: Worker, seconds: float) -> None:
        """Before a worker gives up the outputs of its last burst: which of them to hold on to.
        Raises what Worker.ask raises."""
        drawn, self._next = self._next, None
        if drawn is not None:
            worker.ask("hold", seconds=seconds, place=drawn.place, calls=sorted(drawn.calls))

    def draw(self, slots: DeviceSlots, lie: Sequence[Lying], calls: int) -> None:
        """After a burst of so many calls, whose outputs are in `slots` and lie there."""
        self._next = drawn = self._outputs.draw(range(calls)) if self._holds else None
        if drawn is None:
            return
        some = [slots.taken(lie, call) if self._looks else [] for call in sorted(drawn.calls)]
        self.kept &= all(map(_are_kept, self._outputs.put(drawn, some)))

    def look(self) -> None:
        """At all that are held now."""
        self.kept &= self._outputs.all_are(_are_kept)


def forget(worker: Worker, seconds: float) -> None:
    """Let a worker hold none any more. Raises what Worker.ask raises."""
    worker.ask("hold", seconds=seconds, place=0, calls=[])


def _are_kept(outputs: list[Taken]) -> bool:
    return all(one.is_kept() for one in outputs)
