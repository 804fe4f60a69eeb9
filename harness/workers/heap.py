"""A heap without holes: processes that make the same calls find the same kind of memory for them.

What a process has done before leaves free chunks all over its heap, and the tensors of a call then
lie wherever one was free. Equal calls of 26 us differed by 2 us between a process that had just
loaded a candidate and one that holds a task, 0.2 us with the holes filled (seen on a CPU).
"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Iterator

# Bytes, the larger ones first: others are cut from what is left of them. The steps are those of
# glibc's small bins.
SIZES = (*(1 << n for n in range(26, 12, -1)), *range(4096, 0, -16))
BEYOND = 128 << 20  # no hole is as large, so that it comes from the end of the heap
MOST = 100_000  # holes; some 900 were seen
# What glibc caches of small chunks: sizes in bytes, and how many of each (glibc.malloc.tcache_max
# and tcache_count, as they are unless somebody tunes them).
CACHED, CACHED_COUNT = range(24, 1033, 16), 7

_libc = ctypes.CDLL(None)
_libc.malloc.argtypes, _libc.malloc.restype = [ctypes.c_size_t], ctypes.c_void_p
_libc.free.argtypes, _libc.free.restype = [ctypes.c_void_p], None


@contextlib.contextmanager
def without_holes(size: int = 0, count: int = 0) -> Iterator[None]:
    """What is allocated inside comes from the end of the heap, one after the other, and from where
    others lay that were freed meanwhile. So many chunks of `size` bytes find their pages there."""
    filling = _fill()
    _fill_caches()
    _touch(size, count)
    try:
        yield
    finally:
        for chunk in filling:
            _libc.free(chunk)


def _fill() -> list[int]:
    """A chunk in each hole, none of which is touched; the last of each size lies at the end."""
    chunks: list[int] = []
    if (end := _libc.malloc(BEYOND)) is None:  # as much is not to be had: its heap stays as it is
        return chunks
    _libc.free(end)
    for size in SIZES:
        while len(chunks) < MOST and (chunk := _libc.malloc(size)) is not None:
            chunks.append(chunk)
            if chunk >= end:
                break
    return chunks


def _fill_caches() -> None:
    """As many small chunks in glibc's cache as it takes.

    An aligned tensor leaves a small chunk on either side of it. One that lands in the cache counts
    as in use, so that the place of the tensor stays too small for the next of its size, which takes
    fresh pages. Of ten turns with two results of 16 MiB, one such pair held on to, fresh pages were
    20,000 with full caches and 66,000 without (medians of three processes).
    """
    chunks = [_libc.malloc(size) for size in CACHED for _ in range(CACHED_COUNT)]
    for chunk in chunks:
        _libc.free(chunk)


def _touch(size: int, count: int) -> None:
    """Have pages for so many chunks of this size, where the next of them will lie."""
    chunks = [chunk for _ in range(count) if (chunk := _libc.malloc(size)) is not None]
    for chunk in chunks:
        ctypes.memset(chunk, 0, size)
    for chunk in chunks:
        _libc.free(chunk)
