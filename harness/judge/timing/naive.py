"""The figure that an unfair comparison would give, measured so that it can stand beside the fair
one.

A usual benchmark lets eager allocate fresh, page-faulting output memory in each call, one after the
other, while the kernel writes into memory it already has. Here: eager in a process with the
allocator's defaults, timed alone.
"""

from __future__ import annotations

from ..errors import WorkerDied, WorkerFailed, WorkerTimeout
from ..exchange import bursts
from ..figures import statistics
from ..tasks.drawer import Drawer
from ..tasks.open_task import OpenTask


def eager_us(task: OpenTask, case: str, cpus: list[int], latency_us: float) -> float | None:
    """Median microseconds of eager under default allocation, or None where it could not be had.
    latency_us: a call's, about."""
    pool = task.pools[case]
    task.drawer.draw_timing(pool, latency_us)
    worker, _ = task.workers.start(allocation=False)
    try:
        Drawer(worker).construct(pool)
        slots = bursts.slots(pool, pool.calls)
        worker.ask(
            "baseline",
            [*slots.fds],
            seconds=120,
            case=case,
            name="eager",
            slots=slots.count,
            slot_bytes=pool.slot_bytes,
        )
        worker.ask("threads", seconds=60, count=1, cpus=cpus)
        found = []
        for number in range(7):
            chosen = bursts.group(pool, number).sets
            result = bursts.run(
                worker, slots, f"{case}/eager", chosen, list(range(len(chosen))), 120
            )
            found.append(result.inside_ns / 1e3 / len(chosen))
        return statistics.median(found[2:])
    except (WorkerFailed, WorkerDied, WorkerTimeout):
        return None  # a figure for illustration only
    finally:
        worker.close()
