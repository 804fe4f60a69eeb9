"""A task that is open: its processes, and what the judge knows of its cases."""

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
# at the least at one time, each with outputs in the framework's dtype and in float64; on a device
# two plain ones, then one of them, one of a family and one after the parameters changed
SETS_HELD, SETS_ON_DEVICE = 4, 3
# of the memory that is allowed; above it a confirmation draws the timing sets of each case anew for
# each process
CROWDED_SHARE = 0.125


@dataclass
class OpenTask:
    """A task with live processes: `worker` draws inputs and computes what is expected; baselines
    run in another. Not thread-safe."""

    machine: Machine
    family: DeviceFamily
    workers: TaskWorkers
    worker: Worker
    declaration: dict[str, Any]
    cancel: CancelToken | None = None  # while it is opened
    # whether sets lie on the device, in memory that workers share with the judge
    shared: bool = False
    pools: dict[str, CasePool] = field(default_factory=dict)
    slots: dict[str, Slots] = field(default_factory=dict)
    screening_us: dict[str, dict[str, float]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    disturbance: str = ""  # what else used the device while baselines were screened, "" for nothing
    verdicts: dict[tuple[str, ...], Any] = field(default_factory=dict)  # see verdict_memory
    _baseline_worker: Worker | None = None
    _constructed: set[str] = field(default_factory=set)  # cases that it has

    @property
    def baseline_worker(self) -> Worker:
        """The process in which baselines run. It draws nothing, and so is as fresh as a
        candidate's: small kernels were 1 to 2 % slower in a process that had drawn inputs (seen on
        a CPU), since what was allocated before decides where memory lies."""
        if self._baseline_worker is None:
            self._baseline_worker, _ = self.workers.start(self.cancel, compiles=True)
        return self._baseline_worker

    @property
    def drawer(self) -> Drawer:
        return Drawer(self.worker, self.family, shared=self.shared)

    @property
    def timing_cpus(self) -> list[int]:
        """Where both sides of a comparison are pinned."""
        return [self.family.timing_cpu()]

    @property
    def text(self) -> TaskText:
        return self.workers.text

    @property
    def digest(self) -> str:
        return task_digest(self.text.source, self.text.held_out, self.neighbours)

    @property
    def neighbours(self) -> dict[str, str]:
        """What the task takes from its folder besides its text: names and digests."""
        return self.workers.neighbours or {}

    def pool(self, name: str) -> CasePool:
        """The pool of a case, described and with its checking sets."""
        pool = self.describe(name)
        self.drawer.draw_checking(pool)
        return pool

    def describe(self, name: str) -> CasePool:
        """The pool of a case, with layouts only where nobody has asked for more."""
        if name not in self.pools:
            pool = self.pools[name] = self.drawer.describe(name)
            needed, free = _needed_bytes(pool), self.drawer.free_bytes()
            if needed > free:
                gc.collect()  # sets of a task that was refused hang in the cycles of its traceback
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
        """The case with what its pool knows: tensors, bytes, operations, input families."""
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
        """Whether the process in which baselines run has the reference of a case."""
        return name in self._constructed

    def prepare_baselines(self, name: str, baselines: list[str]) -> None:
        """Make baselines of a case ready for bursts of the pool's length, in the present reference
        worker."""
        pool = self.pools[name]
        key = f"{name}/baselines"
        count = max(2, pool.warm_calls + pool.calls)  # it is checked with two
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
        """Let baselines run in a fresh process: the other half of a fresh process pair. at_once:
        start it now and not when it is needed."""
        if self._baseline_worker is not None:
            self.workers.keep(self._baseline_worker)
            self._baseline_worker.close()
            self._baseline_worker = None  # also where no other can be started
        self._baseline_worker = self.workers.start(compiles=True)[0] if at_once else None
        self._constructed.clear()

    def finish_opening(self) -> None:
        """Say that it is open now: what was compiled is kept for later processes, and nobody can
        cancel it any more."""
        if self._baseline_worker is not None:
            self.workers.keep(self._baseline_worker)
            self._baseline_worker.cancel = None
        self.worker.cancel = self.cancel = None

    @property
    def ended_worker(self) -> Worker:
        """The process that ended, if one has."""
        return (
            self._baseline_worker
            if self._baseline_worker is not None and not self._baseline_worker.pid
            else self.worker
        )

    @property
    def crowds_memory(self) -> bool:
        """Whether the timing sets of all cases together hold more memory than is reasonable."""
        return (
            sum(pool.timing_bytes for pool in self.pools.values())
            > CROWDED_SHARE * host_memory.limit_bytes()
        )

    def release(self, name: str) -> None:
        """A case that has been timed gives its memory back, here and where baselines run."""
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
    """Bytes without which a case cannot be judged: the sets that are held, and on a device what
    workers hold besides, and the parameters of both."""
    if not pool.shared:
        return SETS_HELD * (pool.input_bytes + 3 * pool.slot_bytes)
    return (
        SETS_ON_DEVICE * pool.set_bytes
        + bursts.working_bytes(pool)
        + 3 * _tensor_bytes(pool.describe["state_layout"])
    )


def _tensor_bytes(layout: Layout) -> int:
    """Bytes of the tensors of a layout, without padding."""
    return sum(leaf["nbytes"] for leaf in layout["leaves"] if "value" not in leaf)


def _spec(leaf: dict[str, Any]) -> TensorSpec:
    return TensorSpec(tuple(leaf["shape"]), leaf["dtype"], tuple(leaf["stride"]), leaf["nbytes"])
