"""When the allocator of a process counts as settled, so that its figures are the kernel's: by one
rule for both sides."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from ..processes.freezing import read

# Of a burst, what its page faults may take: far below what a block resolves. A fault now and then
# never ends (a stack that grows, a page that the kernel moved), and each cost one burst more.
SETTLED_SHARE = 0.002
# Of one fault, rounded up: 1.8 us measured for a page of 4 KiB, 129 us for one of 2 MiB (Linux 6.18
# in a virtual machine; on bare metal a page of 4 KiB is had in 0.5 us)
FAULT_NS, LARGE_FAULT_NS = 2_000, 130_000
LARGE_PAGES = Path("/sys/kernel/mm/transparent_hugepage/enabled")


def is_settled(minor_faults: int, burst_ns: int, fault_ns: int) -> bool:
    """Whether the page faults of a burst hardly count in its time."""
    return minor_faults * fault_ns <= SETTLED_SHARE * burst_ns


@cache
def longest_fault_ns(setting: Path = LARGE_PAGES) -> int:
    """What a page fault takes at most, in nanoseconds. Where nobody has to ask for large pages
    (admin-guide/mm/transhuge.rst of the kernel), any fault may bring one."""
    return LARGE_FAULT_NS if b"[always]" in read(str(setting)) else FAULT_NS
