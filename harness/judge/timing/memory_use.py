"""How much memory a side of a block uses, and what that says of a candidate: compared with the
strongest baseline's, and with the limit of the policy."""

from __future__ import annotations

from ...types import CaseResult, Policy, Signal
from ..exchange.slots import Slots
from ..failures import Failure
from ..figures.case_times import USUAL_BYTES, Block
from ..processes.freezing import descendants
from ..processes.worker import Worker
from ..processes.worker_status import PeakMemory
from ..tasks.open_task import OpenTask

TIMES_BASELINE = 2.0  # and more than processes of equal kernels differ by


class MemoryUse:
    """The most that a worker holds from now on. Of a device, whose allocators keep what they had,
    the most that it holds when it is looked at, and when it is recorded."""

    def __init__(self, task: OpenTask, worker: Worker) -> None:
        self._task, self._worker = task, worker
        self._host = PeakMemory(worker.root)
        self._device: int | None = None

    def look(self) -> None:
        """At what it holds of a device now."""
        used_bytes = self._task.family.memory_of(descendants(self._worker.root))
        if used_bytes is not None:
            self._device = max(used_bytes, self._device or 0)

    def record(self, block: Block, side: str, slots: Slots) -> None:
        """Write it into the block. slots: the outputs of this side, which the judge lends."""
        peak = self._host.most(self._lent_bytes(slots))
        block.host_bytes[side] = max(0, peak - self._worker.base_bytes)
        self.look()
        if self._device is not None:
            block.device_bytes[side] = self._device

    def _lent_bytes(self, slots: Slots) -> int:
        """Bytes of memory files: outputs and inputs of this case, and of those before it, which the
        worker has still mapped. Two times, since files are renewed before they are let go."""
        pools = self._task.pools.values()
        return 2 * sum(p.input_bytes + p.state_bytes + slots.count * p.slot_bytes for p in pools)


def beyond_baseline(result: CaseResult) -> list[Signal]:
    """Where it holds far more: one signal at most."""
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
    """Where it holds more than the policy allows."""
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
    """(which memory, the candidate's bytes, the baseline's), of those that are known."""
    host = ("host", result.host_peak_bytes, result.baseline_host_peak_bytes)
    device = ("device", result.device_peak_bytes, result.baseline_device_peak_bytes)
    return [
        (where, nbytes, baseline_bytes)
        for where, nbytes, baseline_bytes in (host, device)
        if nbytes is not None
    ]


def _gib(size: int) -> str:
    return f"{size / 2**30:.2f} GiB"
