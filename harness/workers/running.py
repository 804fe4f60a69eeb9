"""Calls one after the other between two looks at a clock, and what a worker says of them."""

from __future__ import annotations

import gc
import resource
from collections.abc import Callable
from typing import Any

from . import placement


def run(call: Callable[[Any], list[Any]], arguments: list[Any], clock: placement.HostClock | placement.DeviceClock) -> Any:
    """Call once for each argument list, holding every output. (outputs, (ns, minor faults, major faults, switches))."""
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


def figures(elapsed: int, before: resource.struct_rusage, after: resource.struct_rusage, queued: int) -> tuple[int, ...]:
    """What a worker says of a burst: nanoseconds, minor faults, major faults, involuntary switches, nanoseconds until all was queued."""
    return (
        elapsed,
        after.ru_minflt - before.ru_minflt,
        after.ru_majflt - before.ru_majflt,
        after.ru_nivcsw - before.ru_nivcsw,
        queued,
    )
