"""Consecutive calls between two readings of a clock, and the figures that a worker reports."""

from __future__ import annotations

import gc
import resource
import time
from collections.abc import Callable
from functools import partial
from statistics import median
from typing import Any

from . import placement


def run(
    call: Callable[[Any], list[Any]],
    arguments: list[Any],
    clock: placement.HostClock | placement.DeviceClock,
) -> Any:
    """Call once for each argument list and keep every output. Returns (outputs, `figures`)."""
    outputs: list[list[Any]] = []
    keep = outputs.append
    gc.disable()
    before = resource.getrusage(resource.RUSAGE_SELF)
    clock.start(len(arguments))
    for inputs in arguments:
        keep(call(inputs))
    elapsed, queued = clock.stop()
    after = resource.getrusage(resource.RUSAGE_SELF)
    gc.enable()
    return outputs, figures(elapsed, before, after, queued)


MOST_RUNS, ENOUGH_NS = 5, 50_000_000  # limits on the runs of one repeated call
DECISIONS = 20  # pairs of runs, and calls in each run


def repeated_calls_ns(
    call: Callable[[Any], Any],
    inputs: Any,
    count: int,
    clock: placement.HostClock | placement.DeviceClock,
) -> int:
    """Return the nanoseconds of `count` calls on the same inputs, the median of a few runs. Each
    call's outputs are released before the next call, so that all use the same memory: with outputs
    kept, this figure included fresh pages which the verdict's figures do not. On a CPU it is
    processor time, as in the verdict, which other processes on the core do not lengthen."""
    if isinstance(clock, placement.HostClock):
        clock = placement.HostClock(time.process_time_ns)
    runs: list[int] = []
    call(inputs)
    call(inputs)
    gc.disable()
    try:
        began = time.perf_counter_ns()
        while len(runs) < MOST_RUNS and (not runs or time.perf_counter_ns() - began < ENOUGH_NS):
            clock.start(count)
            for _ in range(count):
                call(inputs)
            runs.append(clock.stop()[0])
    finally:
        gc.enable()
    return round(median(runs))


def dispatch_ns(without_kernel: Callable[..., Any], inputs: Any) -> int:
    """Return the nanoseconds that an exported package takes to find its kernel, beyond the call of
    a module: the median of paired runs with warm caches. 0 where it falls back to the
    reference."""
    import torch

    idle, nothing, clock = without_kernel(*inputs), torch.nn.Module(), placement.HostClock()
    if idle is None:
        return 0
    nothing.forward = lambda *arguments: None
    differences = []
    with torch.no_grad():
        for _ in range(DECISIONS):
            whole, part = (
                repeated_calls_ns(partial(_call_spread, module), inputs, DECISIONS, clock)
                for module in (idle, nothing)
            )
            differences.append((whole - part) / DECISIONS)
    return max(1, round(median(differences)))


def _call_spread(module: Callable[..., Any], inputs: Any) -> Any:
    return module(*inputs)


def figures(
    elapsed: int, before: resource.struct_rusage, after: resource.struct_rusage, queued: int
) -> tuple[int, ...]:
    """Return a worker's figures of a burst: nanoseconds, minor faults, major faults, involuntary
    context switches, nanoseconds until all calls were queued."""
    return (
        elapsed,
        after.ru_minflt - before.ru_minflt,
        after.ru_majflt - before.ru_majflt,
        after.ru_nivcsw - before.ru_nivcsw,
        queued,
    )
