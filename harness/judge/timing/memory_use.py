"""The memory that a side of a block uses, compared with the strongest baseline's and with the
policy's limit."""

from __future__ import annotations

from ...types import CaseResult, Policy, Signal
from ..exchange.slots import Slots
from ..failures import Failure
from ..figures.block import Block
from ..figures.case_times import USUAL_BYTES
from ..processes.freezing import descendants
from ..processes.worker import Worker
from ..processes.worker_status import PeakMemory
from ..tasks.open_task import OpenTask

TIMES_BASELINE = 2.0  # in addition to the difference between processes of equal kernels


class MemoryUse:
    """The peak memory of a worker from now on. For a device, whose allocators keep freed memory, it
    is the most of all readings by `look` and `record`. candidate: the only one there, so what the
    driver counts for no process is noted as well."""

    def __init__(self, task: OpenTask, worker: Worker, *, candidate: bool) -> None:
        self._task, self._worker, self._is_candidate = task, worker, candidate
        self._host = PeakMemory(worker.root)
        self._device: int | None = None
        self._unowned = 0

    def look(self) -> None:
        """Read the device memory that it holds now."""
        used_bytes = self._task.family.memory_of(descendants(self._worker.root))
        if used_bytes is not None:
            self._device = max(used_bytes, self._device or 0)
        if self._is_candidate:
            self._unowned = max(self._unowned, self._task.family.unowned_bytes())

    def record(self, block: Block, side: str, slots: Slots) -> None:
        """Write the peak to the block. slots: this side's output slots, which belong to the
        judge."""
        peak = self._host.most(self._lent_bytes(slots))
        block.host_bytes[side] = max(0, peak - self._worker.base_bytes)
        self.look()
        if self._device is not None:
            block.device_bytes[side] = self._device
        if self._is_candidate:
            block.unowned_bytes = self._unowned

    def _lent_bytes(self, slots: Slots) -> int:
        """Return the bytes of the judge's memory files: outputs and inputs of this case and of
        earlier ones that the worker still maps. Counted twice, since new files are mapped before
        old ones are released."""
        pools = self._task.pools.values()
        return 2 * sum(p.input_bytes + p.state_bytes + slots.count * p.slot_bytes for p in pools)


def beyond_baseline(result: CaseResult) -> list[Signal]:
    """Return at most one signal if a candidate holds far more memory than the baseline."""
    parts = [
        f"{_gib(nbytes)} of {where} memory where {result.baseline} holds {_gib(baseline_bytes)}"
        for where, nbytes, baseline_bytes in _peaks(result)
        if baseline_bytes is not None
        and nbytes > max(TIMES_BASELINE * baseline_bytes, baseline_bytes + USUAL_BYTES)
    ]
    if not parts:
        return []
    evidence = {
        "host_peak_bytes": float(result.host_peak_bytes or 0),
        "device_peak_bytes": float(result.device_peak_bytes or 0),
    }
    text = f"case {result.name}: it holds {', and '.join(parts)}"
    return [Signal("memory.beyond_baseline", text, evidence)]


def over_limit(result: CaseResult, policy: Policy) -> Failure | None:
    """Return a failure if a candidate holds more memory than the policy allows."""
    if policy.memory_gib is None:
        return None
    for where, nbytes, _ in _peaks(result):
        if nbytes > policy.memory_gib * 2**30:
            text = (
                f"case {result.name}: it holds {_gib(nbytes)} of {where} memory, more than the "
                f"{policy.memory_gib:g} GiB that are allowed"
            )
            signal = Signal("memory.over_limit", text, {f"{where}_peak_bytes": float(nbytes)})
            return Failure("invalid", text, (signal,))
    return None


def _peaks(result: CaseResult) -> list[tuple[str, int, int | None]]:
    """Return (kind of memory, candidate's bytes, baseline's bytes) for each known kind."""
    host = ("host", result.host_peak_bytes, result.baseline_host_peak_bytes)
    device = ("device", result.device_peak_bytes, result.baseline_device_peak_bytes)
    return [
        (where, nbytes, baseline_bytes)
        for where, nbytes, baseline_bytes in (host, device)
        if nbytes is not None
    ]


def _gib(size: int) -> str:
    return f"{size / 2**30:.2f} GiB"
