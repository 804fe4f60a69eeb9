"""What a process has done before does not decide where the memory of a timed call lies."""

from __future__ import annotations

import os
import subprocess
import sys

from harness.judge.processes.worker import harness_root

# A heap with holes of many sizes; small chunks are taken before, inside and afterwards.
SCRIPT = """
import resource, sys
sys.path.insert(0, ROOT)
from harness.workers import heap

take = heap._libc.malloc
chunks = [take(size) for size in range(16, 50_000, 48)]
for chunk in chunks[::2]:
    heap._libc.free(chunk)
before = take(320)
if LIMITED:
    used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + (1 << 24),) * 2)
with heap.without_holes():
    inside = [take(320) for _ in range(20)]
after = min(take(320) for _ in range(20))
print(before < max(chunks), all(i > max(chunks) for i in inside), inside == sorted(inside), after < max(chunks))
"""  # noqa: E501

# Bursts of two calls with two outputs each, aligned as a tensor is and held until the next burst.
BURSTS = """
import ctypes, resource, sys
sys.path.insert(0, ROOT)
from harness.workers import heap

libc, size, held = ctypes.CDLL(None), 1 << 20, []
libc.free.argtypes = [ctypes.c_void_p]
with heap.without_holes():
    for _ in range(5):
        while held:
            libc.free(held.pop(0))
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        for _ in range(4):
            one = ctypes.c_void_p()
            libc.posix_memalign(ctypes.byref(one), ctypes.c_size_t(64), ctypes.c_size_t(size))
            ctypes.memset(one, 1, size)
            held.append(one.value)
        print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def run(script: str) -> list[str]:
    # as the workers': the heap is one piece, and keeps what is freed
    environment = {
        "MALLOC_MMAP_THRESHOLD_": "4000000000",
        "MALLOC_TRIM_THRESHOLD_": "8000000000",
    }
    return subprocess.run(
        [sys.executable, "-c", script.replace("ROOT", repr(harness_root()))],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()


def told(*, limited: bool) -> list[str]:
    return run(SCRIPT.replace("LIMITED", str(limited)))


def test_memory_comes_from_the_end_of_the_heap_and_the_holes_come_back() -> None:
    assert told(limited=False) == ["True"] * 4


def test_a_heap_that_may_not_grow_so_far_stays_as_it_is() -> None:
    assert told(limited=True)[:2] == ["True", "False"]


def test_outputs_find_memory_that_was_used_before_from_the_third_burst_on() -> None:
    first, _, *later = map(int, run(BURSTS))
    assert first >= 4 * (1 << 20) // os.sysconf("SC_PAGESIZE")
    assert max(later) < 10
