"""What a device is like before and after it timed something, and whether something else had a hand
in the figures."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from pathlib import Path

# of a block, spent runnable without a core or with the core taken by the hypervisor
WAITED_SHARE = 0.05
# a sleeping core of a virtual machine is awake 0.1 to 0.2 ms later; who competes for it keeps it
# for milliseconds
WAKING_NS = 300_000
CLOCK_SHARE = 0.05  # a clock that moved by more between the two readings


@dataclass(frozen=True)
class Disturbance:
    """signal: foreign_process or throttled. text: what happened, for a sentence."""

    signal: str
    text: str


@dataclass(frozen=True)
class DeviceState:
    """At one moment; what is None or empty is not known. waited_ns: how long each of our processes
    has been runnable without a core. stolen_ns: how long the hypervisor has had the core. foreign:
    programs of others on the device. held_bytes: of the device's memory that no process in sight
    owns. core_mhz: the clock of a CPU's timing core, which follows its load: it explains figures
    and disturbs none. facts: for a reader."""

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
    """What makes figures taken between two states doubtful. Pure; decided by the state alone, never
    by the figures."""
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
        reasons.append(
            Disturbance("foreign_process", f"on the device as well: {', '.join(foreign)}")
        )
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
                "throttled", f"the clock moved from {before.clock_mhz} to {after.clock_mhz} MHz"
            )
        )
    return tuple(reasons)


def waited_ns(process: int) -> int | None:
    """How long a process of ours, or the worker that it guards, has been runnable without a core,
    less what each waking up may take; None where it is not told."""
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
    """How long the hypervisor has had a core, from /proc/stat."""
    try:
        lines = Path("/proc/stat").read_text().splitlines()
        ticks = next(int(line.split()[8]) for line in lines if line.startswith(f"cpu{core} "))
    except (OSError, ValueError, IndexError, StopIteration):
        return 0
    return ticks * 1_000_000_000 // os.sysconf("SC_CLK_TCK")


def is_foreign(process: int) -> bool:
    """Whether a process that is there belongs to no evaluator: evaluators wait for each other under
    the device lock."""
    try:
        command = Path(f"/proc/{process}/cmdline").read_bytes()
    except OSError:
        return False
    return process != os.getpid() and command != b"" and b"harness." not in command


def program(process: int) -> str:
    """A process for a reader: its id and name."""
    try:
        return f"process {process} ({Path(f'/proc/{process}/comm').read_text().strip()})"
    except OSError:
        return f"process {process}"
