"""How much memory a side of a block uses."""

from __future__ import annotations

from ..exchange.slots import Slots
from ..figures.case_times import Block
from ..processes.freezing import descendants
from ..processes.worker import Worker
from ..processes.worker_status import PeakMemory
from ..tasks.open_task import OpenTask


class MemoryUse:
    """The most that a worker holds from now on. Of a device, whose allocators keep what they had,
    the most that it holds when it is looked at, and when it is recorded."""

    def __init__(self, task: OpenTask, worker: Worker) -> None:
        self._task, self._worker = task, worker
        self._host = PeakMemory(worker.root)
        self._device: int | None = None

    def look(self) -> None:
        """At what it holds of a device now."""
        found = self._task.family.memory_of(descendants(self._worker.root))
        if found is not None:
            self._device = max(found, self._device or 0)

    def record(self, block: Block, side: str, slots: Slots) -> None:
        """Write it into the block. slots: the outputs of this side, which the judge lends."""
        peak = self._host.most(self._lent(slots))
        block.host_bytes[side] = max(0, peak - self._worker.base_bytes)
        self.look()
        if self._device is not None:
            block.device_bytes[side] = self._device

    def _lent(self, slots: Slots) -> int:
        """Bytes of memory files: outputs and inputs of this case, and of those before it, which the
        worker has still mapped. Two times, since files are renewed before they are let go."""
        pools = self._task.pools.values()
        return 2 * sum(p.input_bytes + p.state_bytes + slots.count * p.slot_bytes for p in pools)
