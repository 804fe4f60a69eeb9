"""What a process has done before does not decide where the memory of a timed call lies."""

from __future__ import annotations

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


def told(*, limited: bool) -> list[str]:
    script = SCRIPT.replace("ROOT", repr(harness_root())).replace("LIMITED", str(limited))
    environment = {"MALLOC_MMAP_THRESHOLD_": "4000000000"}  # as the workers': the heap is one piece
    return subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True
    ).stdout.split()


def test_memory_comes_from_the_end_of_the_heap_and_the_holes_come_back() -> None:
    assert told(limited=False) == ["True"] * 4


def test_a_heap_that_may_not_grow_so_far_stays_as_it_is() -> None:
    assert told(limited=True)[:2] == ["True", "False"]
