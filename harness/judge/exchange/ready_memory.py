"""Memory in which outputs may have been ready before their call.

What does not depend on inputs can be written beforehand, where nothing is timed: into buffers that
no output has lain in yet, or into a file whose pages are mapped where an output is to lie. Who
writes an output in its call needs neither: it finds memory that an earlier one has left.
"""

from __future__ import annotations

import bisect
import itertools
import mmap
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .worker_outputs import OutputPlace

if TYPE_CHECKING:
    import torch

# bits of an entry of /proc/PID/pagemap (admin-guide/mm/pagemap.rst of the kernel); the highest one,
# the sign of an int64, says that the page is there
_SWAPPED, _OF_FILE, _EXCLUSIVE = 1 << 62, 1 << 61, 1 << 56


@dataclass(frozen=True)
class ReadyBytes:
    """Bytes of a turn's outputs that may have been written before their calls. measured: of the
    measured calls, where no output lay before; they may be anything, such as what outputs have in
    common. unmeasured: the same of the calls before: their time may go to what measured outputs
    have in common. mapped: of measured calls, those in pages of a file. early: of all measured
    calls of a device, where whatever is usual may be written before their inputs are there."""

    measured: int = 0
    unmeasured: int = 0
    mapped: int = 0
    early: int = 0


NOTHING_READY = ReadyBytes()


class ReadyMemory:
    """The memory of one process's outputs in turns that follow each other."""

    def __init__(self, process: int) -> None:
        self._process = process
        # where outputs lay: addresses of starts and ends in turn, in order
        self._edges: list[int] = []

    def forget(self) -> None:
        """Outputs lay nowhere so far: those of turns that nobody reads may be anything."""
        self._edges = []

    def note(self, calls: Iterable[Sequence[OutputPlace]]) -> None:
        """Outputs lie there. Those with gaps are noted nowhere: the judge writes into no gap, so
        other outputs may be ready there."""
        places = [place for outputs in calls for place in outputs]
        for place in (each for each in places if each.size <= each.leaf["nbytes"]):
            if not place.size:
                continue
            first = bisect.bisect_left(self._edges, place.address)
            last = bisect.bisect_right(self._edges, place.address + place.size)
            # an edge inside of what is known already goes
            start = [place.address] if first % 2 == 0 else []
            end = [place.address + place.size] if last % 2 == 0 else []
            self._edges[first:last] = [*start, *end]

    def bytes_ready(self, calls: Sequence[Sequence[OutputPlace]]) -> int:
        """Of these outputs, those that may have been there before their call, while their process
        does not run. Where the kernel tells nobody of pages, by the places alone."""
        places = [place for outputs in calls for place in outputs if place.size]
        try:
            fd = os.open(f"/proc/{self._process}/pagemap", os.O_RDONLY | os.O_CLOEXEC)
        except (FileNotFoundError, PermissionError):
            return sum(map(self._unknown_bytes, places))
        try:
            return sum(
                min(place.size, self._unknown_bytes(place) + _bytes_of_others(fd, place))
                for place in places
            )
        finally:
            os.close(fd)

    def bytes_of_files(self, calls: Sequence[Sequence[OutputPlace]]) -> int:
        """Of these outputs, those in pages of a file, which nobody has written in their call."""
        return bytes_of_files(
            self._process,
            [(place.address, place.size) for outputs in calls for place in outputs],
        )

    def _unknown_bytes(self, place: OutputPlace) -> int:
        """Of an output, where none lay before."""
        start, end = place.address, place.address + place.size
        first, last = bisect.bisect_right(self._edges, start), bisect.bisect_left(self._edges, end)
        edges = [start, *self._edges[first:last], end]
        return sum(
            after - before
            for number, (before, after) in enumerate(itertools.pairwise(edges), first)
            if number % 2 == 0
        )


def bytes_of_files(process: int, places: Iterable[tuple[int, int]]) -> int:
    """Return how many bytes at these addresses, each with a size, are in pages of a file, or of
    other memory that can be mapped at several addresses. 0 where the kernel tells nobody."""
    try:
        fd = os.open(f"/proc/{process}/pagemap", os.O_RDONLY | os.O_CLOEXEC)
    except (FileNotFoundError, PermissionError):
        return 0
    try:
        return sum(
            min(size, mmap.PAGESIZE * int(((_entries(fd, address, size) & _OF_FILE) != 0).sum()))
            for address, size in places
            if size
        )
    finally:
        os.close(fd)


def _bytes_of_others(pagemap: int, place: OutputPlace) -> int:
    """Of an output, in pages that are not its process's own: a file's, those of zeros that all
    processes share, and what is not there at all."""
    entries = _entries(pagemap, place.address, place.size)
    is_own = ((entries & _OF_FILE) == 0) & ((entries & _EXCLUSIVE) != 0)
    is_there = (entries < 0) | ((entries & _SWAPPED) != 0)
    return mmap.PAGESIZE * int((~(is_own & is_there)).sum())


def _entries(pagemap: int, address: int, size: int) -> torch.Tensor:
    """Return the entries of the pages of some memory, none where a kernel has no such file."""
    import torch

    first, end = address // mmap.PAGESIZE, -(-(address + size) // mmap.PAGESIZE)
    data = os.pread(pagemap, 8 * (end - first), 8 * first)
    if len(data) < 8 * (end - first):
        return torch.empty(0, dtype=torch.int64)
    return torch.frombuffer(bytearray(data), dtype=torch.int64)
