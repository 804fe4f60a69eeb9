"""Outputs of earlier bursts that a worker on a device still holds: see output_reservoir.

They lie where the judge took them, in memory of the worker's that is mapped here, so that it looks
by itself whether they are what they were: when no clock runs, and while the worker is stopped. The
worker holds what it was told to; which outputs are looked at it hears when their burst is over.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..processes.worker import Worker
from .case_pool import CasePool
from .device_copies import DeviceCopy, DevicePlace
from .device_slots import DeviceSlots
from .output_reservoir import OutputReservoir, Selection

# Of outputs that are held together, one in any case; of one above which none is: the judge has a
# copy of each, and a case that fits a device shall go on fitting it.
HELD_BYTES, MOST_EACH_BYTES = 64 << 20, 1 << 30


class DeviceReservoir:
    """Of one worker, as long as its parameters stay. looks: whether they are looked at; a baseline
    holds as many, so that neither side has other memory than the other. intact: whether all that
    was looked at so far was what it had been."""

    def __init__(self, pool: CasePool, *, looks: bool) -> None:
        self._holds = pool.held_bytes <= MOST_EACH_BYTES
        self._looks, self.intact = looks, True
        self._outputs = OutputReservoir[list[DeviceCopy]](pool.held_bytes, HELD_BYTES)
        self._next: Selection | None = None

    def announce(self, worker: Worker, seconds: float) -> None:
        """Tell a worker, before it gives up the outputs of its last burst, which to hold on to.
        Raises what Worker.ask raises."""
        selection, self._next = self._next, None
        if selection is not None:
            worker.ask(
                "hold", seconds=seconds, place=selection.place, calls=sorted(selection.calls)
            )

    def draw(self, slots: DeviceSlots, places: Sequence[DevicePlace], calls: int) -> None:
        """Select from a burst of so many calls, whose outputs are in `slots` and lie there."""
        self._next = selection = self._outputs.draw(range(calls)) if self._holds else None
        if selection is None:
            return
        copies = [
            slots.copies(places, call) if self._looks else [] for call in sorted(selection.calls)
        ]
        self.intact &= all(map(_are_intact, self._outputs.put(selection, copies)))

    def compare_all(self) -> None:
        """Compare all that are held now."""
        self.intact &= self._outputs.all_are(_are_intact)


def forget(worker: Worker, seconds: float) -> None:
    """Let a worker hold none any more. Raises what Worker.ask raises."""
    worker.ask("hold", seconds=seconds, place=0, calls=[])


def _are_intact(outputs: list[DeviceCopy]) -> bool:
    return all(output.is_intact() for output in outputs)
