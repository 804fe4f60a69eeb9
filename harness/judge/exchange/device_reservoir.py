"""Outputs of earlier bursts that a worker on a device still holds, see output_reservoir.

They are in the worker's memory, which the judge maps, so the judge itself checks that they are
unchanged: while no clock runs and the worker is stopped. The worker learns which outputs it must
keep only after their burst.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..processes.worker import Worker
from .case_pool import CasePool
from .device_copies import DeviceCopy, DevicePlace, change, share_memory
from .device_slots import DeviceSlots
from .input_sets import InputSet
from .output_reservoir import OutputReservoir, Selection

# The most bytes of outputs held together (at least one is held), and of one call above which none
# is held: the judge has a copy of each, and a case that fits a device must continue to fit.
HELD_BYTES, MOST_EACH_BYTES = 64 << 20, 1 << 30


def most_bytes(pool: CasePool) -> int:
    """Return the most bytes of outputs that a worker holds for the judge."""
    if pool.held_bytes > MOST_EACH_BYTES:
        return 0
    return max(pool.held_bytes, HELD_BYTES)


class DeviceReservoir:
    """The reservoir of one worker, as long as its parameters stay the same. looks: whether outputs
    are checked; a baseline holds as many unchecked, so that both sides use memory alike. intact:
    whether all outputs checked so far were unchanged, and each in memory of its own."""

    def __init__(self, pool: CasePool, *, looks: bool) -> None:
        self._holds = most_bytes(pool) > 0
        self._output_count = len(pool.outputs["leaves"])
        self._looks, self.intact = looks, True
        self._outputs = OutputReservoir[list[DeviceCopy]](pool.held_bytes, HELD_BYTES)
        self._next: Selection | None = None

    def announce(self, worker: Worker, seconds: float) -> None:
        """Tell a worker which outputs of its last burst to keep, before it releases them. Raises
        what Worker.ask raises."""
        selection, self._next = self._next, None
        if selection is not None:
            worker.ask(
                "hold", seconds=seconds, place=selection.place, calls=sorted(selection.calls)
            )

    def draw(self, slots: DeviceSlots, places: Sequence[DevicePlace], calls: int) -> None:
        """Select outputs to keep from a burst of `calls` calls. slots: the judge's copies. places:
        where the worker has the outputs."""
        self._next = selection = self._outputs.draw(range(calls)) if self._holds else None
        if selection is None:
            return
        copies = [
            slots.copies(places, call) if self._looks else [] for call in sorted(selection.calls)
        ]
        self.intact &= all(map(_are_intact, self._outputs.put(selection, copies)))

    def look(self, places: Sequence[DevicePlace]) -> None:
        """Check that the outputs of a burst are in memory of their own, while the worker is
        stopped."""
        if self._looks:
            self.intact &= not share_memory(places)

    def change(self, places: Sequence[DevicePlace], sets: Sequence[InputSet]) -> None:
        """Change the outputs of a burst on these sets, except for those to keep and those in memory
        that the reference uses again, while the worker is stopped."""
        if not self._looks:
            return
        kept = self._next.calls if self._next is not None else ()
        outputs = self._output_count
        change(
            [
                place
                for place in places
                if (call := place.number // outputs) not in kept
                and place.number % outputs not in sets[call].memory["same"]
            ]
        )

    def compare_all(self) -> None:
        """Check all outputs that are held now."""
        self.intact &= self._outputs.all_are(_are_intact)


def forget(worker: Worker, seconds: float) -> None:
    """Let a worker release all kept outputs, and memory that nothing uses, such as what a search
    for parameters has left. Raises what Worker.ask raises."""
    worker.ask("hold", seconds=seconds, place=0, calls=[])


def _are_intact(outputs: list[DeviceCopy]) -> bool:
    return all(output.is_intact() for output in outputs)
