"""An open task: its processes, and the judge's data about its cases."""

from __future__ import annotations

import gc
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from ...targets import DeviceFamily
from ...types import Case, TensorSpec, task_digest
from ...wire.layouts import Layout
from ..device import host_memory
from ..device.machine import Machine
from ..errors import CancelToken, TaskRefusedError
from ..exchange import bursts
from ..exchange.case_pool import CasePool
from ..exchange.slots import Slots
from ..processes.worker import Worker
from .drawer import Drawer
from .task_workers import TASK_SECONDS, TaskText, TaskWorkers

Tell = Callable[[str, str, float], None]  # stage, message, fraction of the whole
COMPILE_SECONDS = 300.0
# the least number of sets held at one time, each with outputs in the framework's dtype and in
# float64; on a device two plain ones, then one of them, one of a family and one after a parameter
# change
SETS_HELD, SETS_ON_DEVICE = 4, 3
# share of the allowed memory above which a confirmation draws each case's timing sets again for
# each process
CROWDED_SHARE = 0.125


@dataclass
class OpenTask:
    """A task with live processes: `worker` draws inputs and computes expected outputs; baselines
    run in another process. Not thread-safe."""

    machine: Machine
    family: DeviceFamily
    workers: TaskWorkers
    worker: Worker
    declaration: dict[str, Any]
    cancel: CancelToken | None = None  # during opening
    # whether sets are on the device, in memory that workers share with the judge
    shared: bool = False
    pools: dict[str, CasePool] = field(default_factory=dict)
    slots: dict[str, Slots] = field(default_factory=dict)
    screening_us: dict[str, dict[str, float]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    disturbance: str = ""  # what disturbed the screening of baselines, "" for nothing
    verdicts: dict[tuple[str, ...], Any] = field(default_factory=dict)  # see verdict_memory
    _baseline_worker: Worker | None = None
    _constructed: set[str] = field(default_factory=set)  # cases constructed in it

    @property
    def baseline_worker(self) -> Worker:
        """The process in which baselines run. It draws no inputs, so its heap is as new as a
        candidate's: earlier allocations affect the addresses of memory, and small kernels were 1 to
        2 % slower in a process that had drawn inputs (seen on a CPU)."""
        if self._baseline_worker is None:
            self._baseline_worker, _ = self.workers.start(self.cancel, compiles=True)
        return self._baseline_worker

    @property
    def drawer(self) -> Drawer:
        return Drawer(self.worker, self.family, shared=self.shared)

    @property
    def timing_cpus(self) -> list[int]:
        """The cores to which both sides of a comparison are pinned."""
        return [self.family.timing_cpu()]

    @property
    def text(self) -> TaskText:
        return self.workers.text

    @property
    def digest(self) -> str:
        return task_digest(self.text.source, self.text.held_out, self.neighbours)

    @property
    def neighbours(self) -> dict[str, str]:
        """The files that the task loads from its folder besides its text: names and digests."""
        return self.workers.neighbours or {}

    def pool(self, name: str) -> CasePool:
        """Return the pool of a case, described and with its checking sets."""
        pool = self.describe(name)
        self.drawer.draw_checking(pool)
        return pool

    def describe(self, name: str) -> CasePool:
        """Return the pool of a case; a new one has only its description. Raises TaskRefusedError if
        memory is too small for it."""
        if name not in self.pools:
            pool = self.pools[name] = self.drawer.describe(name)
            needed, free = _needed_bytes(pool), self.drawer.free_bytes()
            if needed > free:
                gc.collect()  # tracebacks of refused tasks keep input sets in reference cycles
                free = self.drawer.free_bytes()
            if needed > free:
                raise TaskRefusedError(
                    f"{self.text.lines.at('get_inputs')}: case {name!r}: inputs of "
                    f"{pool.input_bytes / 2**30:.1f} GiB, outputs of {pool.slot_bytes / 2**30:.1f} "
                    f"GiB and parameters of {pool.state_bytes / 2**30:.1f} GiB need about "
                    f"{needed / 2**30:.1f} GiB to be judged, and {free / 2**30:.1f} GiB are "
                    f"free{' on the device' if pool.shared else ''}. Use smaller shapes, or a "
                    "machine with more memory."
                )
        return self.pools[name]

    def describe_case(self, case: Case) -> Case:
        """Return the case with the facts from its pool: tensors, bytes, operations, families."""
        pool = self.pools[case.name]
        leaves = [leaf for leaf in pool.describe["inputs"]["leaves"] if "value" not in leaf]
        inputs = leaves[: len(leaves) - len(pool.upstream)]
        written = sum(leaf["nbytes"] for leaf in pool.outputs["leaves"])
        bytes_held = sum(leaf["nbytes"] for leaf in leaves) + _tensor_bytes(
            pool.describe["state_layout"]
        )
        return replace(
            case,
            inputs=tuple(_spec(leaf) for leaf in inputs),
            outputs=tuple(_spec(leaf) for leaf in pool.outputs["leaves"]),
            bytes_held=bytes_held + written,
            bytes_min=pool.describe["bytes_read"] + written,
            bytes_written=written,
            operations=float(pool.describe["operations"]),
            families=tuple(pool.families),
            dropped_families=dict(pool.dropped_families),
        )

    def has_baselines(self, name: str) -> bool:
        """Return whether the baselines' process has the reference of a case."""
        return name in self._constructed

    def prepare_baselines(self, name: str, baselines: list[str]) -> None:
        """Prepare baselines of a case for bursts of the pool's length, in the present baselines'
        process."""
        pool = self.pools[name]
        key = f"{name}/baselines"
        count = max(2, pool.warm_calls + pool.calls)  # checks use two
        if key not in self.slots or self.slots[key].count < count:
            self.slots[key] = bursts.slots(pool, count)
        slots = self.slots[key]
        if name not in self._constructed:
            Drawer(self.baseline_worker).construct(pool)
            self._constructed.add(name)
        for baseline in baselines:
            self.baseline_worker.ask(
                "baseline",
                [*slots.fds],
                seconds=COMPILE_SECONDS,
                case=name,
                name=baseline,
                slots=slots.count,
                slot_bytes=pool.slot_bytes,
            )

    def restart_baselines(self, *, at_once: bool = False) -> None:
        """Let baselines run in a fresh process, the other half of a fresh process pair. at_once:
        start it now instead of when it is needed."""
        if self._baseline_worker is not None:
            self.workers.keep(self._baseline_worker)
            self._baseline_worker.close()
            self._baseline_worker = None  # in case the start below fails
        self._baseline_worker = self.workers.start(compiles=True)[0] if at_once else None
        self._constructed.clear()

    def finish_opening(self) -> None:
        """Finish the opening: keep what was compiled for later processes, and detach the cancel
        token."""
        if self._baseline_worker is not None:
            self.workers.keep(self._baseline_worker)
            self._baseline_worker.cancel = None
        self.worker.cancel = self.cancel = None

    @property
    def ended_worker(self) -> Worker:
        """The baselines' process if it has ended, otherwise the task's worker."""
        return (
            self._baseline_worker
            if self._baseline_worker is not None and not self._baseline_worker.pid
            else self.worker
        )

    @property
    def crowds_memory(self) -> bool:
        """Whether the timing sets of all cases together use more than CROWDED_SHARE."""
        return (
            sum(pool.timing_bytes for pool in self.pools.values())
            > CROWDED_SHARE * host_memory.limit_bytes()
        )

    def release(self, name: str) -> None:
        """Release the memory of a case that has been timed, here and in the baselines' process."""
        self.pools[name].release(checking=True)
        if (
            self.slots.pop(f"{name}/baselines", None) is not None
            and self._baseline_worker is not None
        ):
            for baseline in self.baselines:
                self.baseline_worker.ask("drop", seconds=TASK_SECONDS, key=f"{name}/{baseline}")
        bursts.forget()
        host_memory.trim()

    @property
    def baselines(self) -> list[str]:
        return ["eager", "compile", *self.declaration["baselines"]]

    def close(self) -> None:
        for worker in filter(None, (self.worker, self._baseline_worker)):
            worker.close()
        self.workers.close()
        for pool in self.pools.values():
            pool.close()
        bursts.forget()


def _needed_bytes(pool: CasePool) -> int:
    """Return the bytes needed to judge a case: the sets that are held, and on a device also the
    memory of workers and the parameters of both sides."""
    if not pool.shared:
        return SETS_HELD * (pool.input_bytes + 3 * pool.slot_bytes)
    return (
        SETS_ON_DEVICE * pool.set_bytes
        + bursts.working_bytes(pool)
        + 3 * _tensor_bytes(pool.describe["state_layout"])
    )


def _tensor_bytes(layout: Layout) -> int:
    """Return the bytes of the tensors of a layout, without padding."""
    return sum(leaf["nbytes"] for leaf in layout["leaves"] if "value" not in leaf)


def _spec(leaf: dict[str, Any]) -> TensorSpec:
    return TensorSpec(tuple(leaf["shape"]), leaf["dtype"], tuple(leaf["stride"]), leaf["nbytes"])
