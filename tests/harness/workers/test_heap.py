"""What a process has done before does not decide where the memory of a timed call lies."""

from __future__ import annotations

import subprocess
import sys

from harness.judge.process_environment import harness_root, scrubbed_environment

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
    inside = [take(3200) for _ in range(20)]
after = min(take(320) for _ in range(20))
print(before < max(chunks), all(i > max(chunks) for i in inside), inside == sorted(inside), after < max(chunks))
"""  # noqa: E501

# As a worker makes calls: two aligned results and a small object for each, all of them freed before
# the next call but for those of one earlier call, which others take the place of now and then.
HOLDING = """
import ctypes, random, resource, sys
sys.path.insert(0, ROOT)
from harness.workers import heap

SIZE = 4 << 20
libc = heap._libc
libc.memalign.argtypes, libc.memalign.restype = [ctypes.c_size_t] * 2, ctypes.c_void_p

def call():
    found = []
    for _ in range(2):
        found += [libc.memalign(64, SIZE), libc.malloc(100)]
        ctypes.memset(found[-2], 1, SIZE)
    return found

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

random.seed(3)
chunks = [libc.malloc(size) for size in range(16, 50_000, 48)]
for chunk in chunks[::2]:
    libc.free(chunk)
with heap.without_holes(SIZE, 12):
    before, held, last = faults(), [], []
    for _ in range(40):
        if last and (not held or random.random() < 0.2):
            last, held = held, last
        for chunk in last:
            libc.free(chunk)
        last = call()
    print(faults() - before)
"""


def told(*, limited: bool) -> list[str]:
    environment = {"MALLOC_MMAP_THRESHOLD_": "4000000000"}  # as the workers': the heap is one piece
    return run(SCRIPT.replace("LIMITED", str(limited)), environment)


def run(text: str, environment: dict[str, str]) -> list[str]:
    script = text.replace("ROOT", repr(harness_root()))
    return subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True
    ).stdout.split()


def test_memory_comes_from_the_end_of_the_heap_and_the_holes_come_back() -> None:
    assert told(limited=False) == ["True"] * 4


def test_a_heap_that_may_not_grow_so_far_stays_as_it_is() -> None:
    assert told(limited=True)[:2] == ["True", "False"]


def test_results_of_which_some_are_held_take_no_fresh_pages() -> None:
    (faults,) = run(HOLDING, scrubbed_environment())
    assert int(faults) < 100  # of 2048 pages a call
