"""A heap without holes, so that processes which make the same calls get the same kind of memory.

A process's history leaves free chunks all over its heap, and the tensors of a call land in any of
them. Equal calls of 26 us differed by 2 us between a process that had just loaded a candidate and
one that holds a task, and by 0.2 us with the holes filled (seen on a CPU).
"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Iterator

# Bytes, the largest first: smaller chunks are cut from the remainders. The small steps are those of
# glibc's small bins.
SIZES = (*(1 << n for n in range(26, 12, -1)), *range(4096, 0, -16))
BEYOND = 128 << 20  # larger than any hole, so that this chunk comes from the end of the heap
MOST = 100_000  # holes; about 900 were seen
# The small chunks that glibc caches: sizes in bytes, and how many of each (the defaults of
# glibc.malloc.tcache_max and tcache_count).
CACHED, CACHED_COUNT = range(24, 1033, 16), 7

_libc = ctypes.CDLL(None)
_libc.malloc.argtypes, _libc.malloc.restype = [ctypes.c_size_t], ctypes.c_void_p
_libc.free.argtypes, _libc.free.restype = [ctypes.c_void_p], None


@contextlib.contextmanager
def without_holes(size: int = 0, count: int = 0) -> Iterator[None]:
    """Make allocations inside the block come from the end of the heap, one after another, or from
    chunks that were freed in the block. The first `count` chunks of `size` bytes find their pages
    already present."""
    filling = _fill()
    _fill_caches()
    _touch(size, count)
    try:
        yield
    finally:
        for chunk in filling:
            _libc.free(chunk)


def _fill() -> list[int]:
    """Allocate a chunk in each hole without touching it; the last of each size lies at the end."""
    chunks: list[int] = []
    if (end := _libc.malloc(BEYOND)) is None:  # not available: leave the heap unchanged
        return chunks
    _libc.free(end)
    for size in SIZES:
        while len(chunks) < MOST and (chunk := _libc.malloc(size)) is not None:
            chunks.append(chunk)
            if chunk >= end:
                break
    return chunks


def _fill_caches() -> None:
    """Fill glibc's cache of small chunks.

    An aligned tensor leaves a small chunk on either side of it. A chunk in the cache counts as in
    use, so that the tensor's place stays too small for the next tensor of its size, which then
    takes fresh pages. In ten rounds with two results of 16 MiB, of which one pair was kept, fresh
    pages were 20,000 with full caches and 66,000 without (medians of three processes).
    """
    chunks = [_libc.malloc(size) for size in CACHED for _ in range(CACHED_COUNT)]
    for chunk in chunks:
        _libc.free(chunk)


def _touch(size: int, count: int) -> None:
    """Populate the pages where the next `count` chunks of this size will lie."""
    chunks = [chunk for _ in range(count) if (chunk := _libc.malloc(size)) is not None]
    for chunk in chunks:
        ctypes.memset(chunk, 0, size)
    for chunk in chunks:
        _libc.free(chunk)
