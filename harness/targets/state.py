"""The state of a device before and after timing, and whether anything else affected the figures."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from pathlib import Path

# the tolerated share of a block's time that a process is runnable without a core, or that the
# hypervisor takes the core
WAITED_SHARE = 0.05
# a sleeping core of a virtual machine wakes within 0.1 to 0.2 ms; a competing process keeps a core
# for milliseconds
WAKING_NS = 300_000
CLOCK_SHARE = 0.05  # the tolerated relative change of a clock between the two readings


@dataclass(frozen=True)
class Disturbance:
    """One cause of doubt about figures. signal: foreign_process or throttled. text: what happened,
    as part of a sentence."""

    signal: str
    text: str


@dataclass(frozen=True)
class DeviceState:
    """The state at one moment; None or empty where unknown. waited_ns: how long each of the
    evaluator's processes has been runnable without a core. stolen_ns: how long the hypervisor has
    taken the core. foreign: other programs on the device. held_bytes: device memory that no visible
    process owns. core_mhz: the clock of a CPU's timing core; it follows the load, so it explains
    figures but does not make them doubtful. facts: texts for a reader."""

    at_ns: int
    waited_ns: dict[int, int] = field(default_factory=dict)
    stolen_ns: int = 0
    foreign: tuple[str, ...] = ()
    throttled: tuple[str, ...] = ()
    clock_mhz: int | None = None
    core_mhz: int | None = None
    held_bytes: int | None = None
    facts: dict[str, str] = field(default_factory=dict)


def disturbances(before: DeviceState, after: DeviceState) -> tuple[Disturbance, ...]:
    """Return what makes figures taken between two states doubtful. Pure; decided by the states
    alone, never by the figures."""
    reasons = []
    elapsed = max(1, after.at_ns - before.at_ns)
    waited = max(
        (
            after.waited_ns[p] - before.waited_ns[p]
            for p in after.waited_ns
            if p in before.waited_ns
        ),
        default=0,
    )
    if waited > WAITED_SHARE * elapsed:
        reasons.append(
            Disturbance(
                "foreign_process",
                f"other programs held the core for {waited / elapsed:.0%} of the time",
            )
        )
    stolen = after.stolen_ns - before.stolen_ns
    if stolen > max(WAITED_SHARE * elapsed, 20_000_000):  # the system counts in steps of 10 ms
        reasons.append(
            Disturbance(
                "foreign_process",
                f"the hypervisor held the core for {stolen / elapsed:.0%} of the time",
            )
        )
    if foreign := sorted({*before.foreign, *after.foreign}):
        reasons.append(Disturbance("foreign_process", f"also on the device: {', '.join(foreign)}"))
    if throttled := sorted({*before.throttled, *after.throttled}):
        reasons.append(
            Disturbance("throttled", f"the device was slowed down by {', '.join(throttled)}")
        )
    elif (
        before.clock_mhz
        and after.clock_mhz
        and abs(after.clock_mhz / before.clock_mhz - 1) > CLOCK_SHARE
    ):
        reasons.append(
            Disturbance(
                "throttled", f"the clock changed from {before.clock_mhz} to {after.clock_mhz} MHz"
            )
        )
    return tuple(reasons)


def waited_ns(process: int) -> int | None:
    """Return how long a process and its children (a guard and its worker) have been runnable
    without a core, less an allowance for each wake-up; None where the kernel does not report it."""
    try:
        children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
        return max(0, sum(_waited_for_others_ns(p) for p in (process, *map(int, children))))
    except (OSError, ValueError):
        return None


def _waited_for_others_ns(process: int) -> int:
    """Of its first thread, for others than its own threads: who starts some may let the first one
    wait whenever that is of use, and would choose which of its processes count."""
    ran, waited, times = map(int, Path(f"/proc/{process}/schedstat").read_text().split())
    # CPUCLOCK_SCHED of a process, all its threads: include/linux/posix-timers_types.h
    own_threads_ns = time.clock_gettime_ns((~process << 3) | 2) - ran
    return waited - WAKING_NS * times - max(0, own_threads_ns)


def stolen_ns(core: int) -> int:
    """Return how long the hypervisor has taken a core, from /proc/stat."""
    try:
        lines = Path("/proc/stat").read_text().splitlines()
        ticks = next(int(line.split()[8]) for line in lines if line.startswith(f"cpu{core} "))
    except (OSError, ValueError, IndexError, StopIteration):
        return 0
    return ticks * 1_000_000_000 // os.sysconf("SC_CLK_TCK")


def is_foreign(process: int) -> bool:
    """Return whether an existing process belongs to no evaluator. Evaluators do not disturb each
    other: they wait under the device lock."""
    try:
        command = Path(f"/proc/{process}/cmdline").read_bytes()
    except OSError:
        return False
    return process != os.getpid() and command != b"" and b"harness." not in command


def program(process: int) -> str:
    """Describe a process to a reader by id and name."""
    try:
        return f"process {process} ({Path(f'/proc/{process}/comm').read_text().strip()})"
    except OSError:
        return f"process {process}"
