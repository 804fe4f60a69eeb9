"""Files in memory (memfds): the judge creates them, since it knows every size in advance, seals
them, and both sides map them."""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
import time
from collections.abc import Iterator

PAGE = 4096  # bytes
# of linux/fcntl.h: F_ADD_SEALS and its seals
_ADD_SEALS = 1033
_SEAL_SEAL, _SEAL_SHRINK, _SEAL_GROW, _SEAL_WRITE, _SEAL_FUTURE_WRITE = 1, 2, 4, 8, 16
_SEALING_TRIES = 10  # the kernel itself waits up to 0.15 s in each
_MAP_POPULATE = 0x8000


def create(name: str, size: int, *, fixed: bool = True) -> int:
    """Create a memfd of `size` bytes (at least one page). fixed: forbid resizing, so that no other
    holder can remove pages from under a mapping."""
    fd = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, max(size, PAGE))
    if fixed:
        fcntl.fcntl(fd, _ADD_SEALS, _SEAL_GROW | _SEAL_SHRINK)
    return fd


def seal(fd: int, *, writable: bool = False) -> None:
    """Forbid resizing and, unless `writable`, writing, permanently. No writable mapping may exist.
    The kernel answers EBUSY as long as anyone, itself included, still uses one of the pages."""
    seals = _SEAL_GROW | _SEAL_SHRINK | _SEAL_SEAL | (0 if writable else _SEAL_WRITE)
    for _ in range(_SEALING_TRIES):
        if _accepts_seals(fd, seals):
            return
        time.sleep(0.05)
    fcntl.fcntl(fd, _ADD_SEALS, seals)


def _accepts_seals(fd: int, seals: int) -> bool:
    try:
        fcntl.fcntl(fd, _ADD_SEALS, seals)
    except OSError as error:
        if error.errno != errno.EBUSY:
            raise
        return False
    return True


def seal_for_others(fd: int) -> None:
    """Forbid resizing, and writing except through existing mappings."""
    fcntl.fcntl(fd, _ADD_SEALS, _SEAL_GROW | _SEAL_SHRINK | _SEAL_SEAL | _SEAL_FUTURE_WRITE)


def from_bytes(name: str, data: bytes) -> int:
    """Create a sealed memfd that holds `data`."""
    fd = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.write(fd, data) if len(data) < 1 << 20 else write_at(fd, memoryview(data), 0)
    seal(fd)
    return fd


def copy(name: str, fd: int) -> int:
    """Create a sealed memfd with the same contents. Holes of the original stay holes and take no
    memory."""
    size = os.fstat(fd).st_size
    new = create(name, size)
    try:
        for start, end in _data_ranges(fd, size):
            os.lseek(new, start, os.SEEK_SET)
            while start < end:
                start += os.sendfile(new, fd, start, min(end - start, 1 << 30))
        os.lseek(new, 0, os.SEEK_SET)
        seal(new)
        return new
    except BaseException:
        os.close(new)
        raise


def _data_ranges(fd: int, size: int) -> Iterator[tuple[int, int]]:
    """Yield the (start, end) of the parts of a file that are not holes."""
    end = 0
    while end < size:
        try:
            start = os.lseek(fd, end, os.SEEK_DATA)
        except OSError:  # ENXIO: the rest is a hole
            return
        end = os.lseek(fd, start, os.SEEK_HOLE)
        yield start, end


def read_all(fd: int) -> bytes:
    """Read a whole file from its start."""
    size = os.fstat(fd).st_size
    parts, offset = [], 0
    while offset < size:
        part = os.pread(fd, min(size - offset, 1 << 24), offset)
        if not part:
            break
        parts.append(part)
        offset += len(part)
    return b"".join(parts)


def write_at(fd: int, data: memoryview, offset: int) -> None:
    """Write all of `data` at an offset."""
    position = 0
    while position < len(data):
        position += os.pwrite(fd, data[position : position + (1 << 26)], offset + position)


def map_private(fd: int, size: int = 1 << 62) -> mmap.mmap:
    """Map a file, or its first `size` bytes, privately and read-only, with all pages populated."""
    return _map(
        fd, min(size, os.fstat(fd).st_size), mmap.MAP_PRIVATE | _MAP_POPULATE, mmap.PROT_READ
    )


def map_read_only(fd: int) -> mmap.mmap:
    """Map a file read-only; the mapping shows what other processes write."""
    return _map(fd, os.fstat(fd).st_size, mmap.MAP_SHARED | _MAP_POPULATE, mmap.PROT_READ)


def map_shared(fd: int, size: int) -> mmap.mmap:
    """Map a file writable and shared."""
    return _map(fd, size, mmap.MAP_SHARED | _MAP_POPULATE, mmap.PROT_READ | mmap.PROT_WRITE)


def _map(fd: int, size: int, flags: int, protection: int) -> mmap.mmap:
    return mmap.mmap(fd, max(size, PAGE), flags=flags, prot=protection)
