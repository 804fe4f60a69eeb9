"""The rule, the same for both sides, by which a process's allocator counts as settled, so that page
faults no longer affect its figures."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from ..processes.freezing import read

# The share of a burst that its page faults may take, far below the resolution of a block. It is not
# 0, since occasional faults never end (a growing stack, a page that the kernel moved), and each
# would cost another burst.
SETTLED_SHARE = 0.002
# Time of one fault, rounded up: 1.8 us measured for a page of 4 KiB, 129 us for one of 2 MiB (Linux
# 6.18 in a virtual machine; 0.5 us for 4 KiB on bare metal)
FAULT_NS, LARGE_FAULT_NS = 2_000, 130_000
LARGE_PAGES = Path("/sys/kernel/mm/transparent_hugepage/enabled")


def is_settled(minor_faults: int, burst_ns: int, fault_ns: int) -> bool:
    """Return whether the page faults of a burst are a negligible part of its time."""
    return minor_faults * fault_ns <= SETTLED_SHARE * burst_ns


@cache
def longest_fault_ns(setting: Path = LARGE_PAGES) -> int:
    """Return the longest time of a page fault in nanoseconds. If large pages are always enabled
    (admin-guide/mm/transhuge.rst of the kernel), any fault may map one."""
    return LARGE_FAULT_NS if b"[always]" in read(str(setting)) else FAULT_NS
