"""Calls on a CPU that are billed: with what the kernel says that the worker's process has run.

The worker sleeps until all inputs are there and again when its outputs are, which the judge then
reads in the worker's memory. Whatever the process does, and whenever it says that it is done, it
pays for. What waits for others' work has a longer time by the judge's clock, which is noted as
well.
"""

from __future__ import annotations

import ctypes
import errno
import os
import random
import time
from collections.abc import Sequence

from ...wire import buffers, frames
from ...workers import gate
from ..errors import WorkerTimeout
from ..processes.freezing import is_running
from .calls import Caller, Shown, dense, same
from .case_pool import CasePool
from .input_sets import InputSet

PAGE_WORDS = 512  # of 64 bits, in the smallest page
MOST_PARTS = 512  # of memory in one system call; IOV_MAX is 1024

_libc = ctypes.CDLL(None, use_errno=True)


class ByBill(Caller):
    """The worker sleeps between calls, and pays with processor time."""

    def _link(self, pool: CasePool) -> list[int]:
        self._table, self._wake, self._followed = (
            Table(int(self._layout["bytes"])),
            os.eventfd(0, os.EFD_CLOEXEC),
            0,
        )
        return [self._table.fd, self._wake]

    def _give(self, held: InputSet | None) -> int:
        if held is not None:
            self._table.put(held)
        self._followed += 1
        began = time.perf_counter_ns()
        os.eventfd_write(self._wake, 1)
        return began

    def _answered(self) -> bool:
        return self._gate.done >= self._followed

    def _so_far(self) -> tuple[int, int]:
        """Once all its threads sleep: one that goes on after it was said that all is done is waited
        for. The kernel brings a running thread's part of the bill up to date at its ticks only,
        which are milliseconds apart."""
        deadline = time.monotonic() + self._seconds
        while True:
            if not is_running(self._process):
                return super()._so_far()
            if time.monotonic() > deadline:
                self._worker.kill()
                raise WorkerTimeout

    def _collect(self, slot: memoryview) -> list[Shown]:
        shown = self._shown()
        self._table.spoil()  # an output that is no copy but the inputs' own pages changes with them
        self._read(shown, slot)
        return shown

    def _figure(self, seen_ns: int, bill_ns: int) -> int:
        return bill_ns

    def _kept(self, shown: list[list[Shown]], place: memoryview, some: Sequence[int]) -> bool:
        again = memoryview(bytearray(self._slot_bytes))
        for number in some:
            self._read(shown[number], again)
            if not same(again, self._slot(place, number), self._outputs):
                return False
        return True

    def _read(self, shown: list[Shown], slot: memoryview) -> None:
        """Outputs in the worker's memory, dense."""
        parts = [(one, one.leaf["offset"]) for one in shown if one.size]
        self._copy(
            [
                (one.address, slot[offset : offset + one.size])
                for one, offset in parts
                if one.strides is None
            ]
        )
        for one, offset in parts:
            if one.strides is not None:
                spread = bytearray(one.size)
                self._copy([(one.address, memoryview(spread))])
                dense(memoryview(spread), one, slot[offset : offset + one.leaf["nbytes"]])

    def _copy(self, parts: list[tuple[int, memoryview]]) -> None:
        """process_vm_readv(2), as often as it takes."""
        for start in range(0, len(parts), MOST_PARTS):
            some = parts[start : start + MOST_PARTS]
            here = (gate.Part * len(some))(*(gate.Part(_address(to), len(to)) for _, to in some))
            there = (gate.Part * len(some))(*(gate.Part(address, len(to)) for address, to in some))
            count = ctypes.c_ulong(len(some))
            read = _libc.process_vm_readv(
                self._process, here, count, there, count, ctypes.c_ulong(0)
            )
            if read != sum(len(to) for _, to in some):
                self._unread(ctypes.get_errno() if read < 0 else errno.EFAULT)

    def _unread(self, number: int) -> None:
        if number == errno.ESRCH:
            self._worker.wait(frames.OK, 1.0)  # it has ended: raises how
        if number in (errno.ESRCH, errno.EFAULT):
            raise self._nonsense("an output is not in its memory")
        raise OSError(number, f"reading outputs in the worker's memory: {os.strerror(number)}")

    def close(self) -> None:
        super().close()
        os.close(self._wake)


class Table:
    """Memory in which the inputs of a call appear, for one worker, which cannot write it."""

    def __init__(self, size: int) -> None:
        self._size = max(size, buffers.ALIGN)
        self.fd = buffers.create("arriving", self._size)
        self._view = memoryview(buffers.shared(self.fd, self._size))
        buffers.seal_for_others(self.fd)

    def put(self, held: InputSet) -> None:
        """Make these the inputs that are there."""
        done, size = 0, int(held.layout["bytes"])
        while done < size:
            read = os.preadv(held.file.fd, [self._view[done:size]], held.base + done)
            if not read:
                raise ValueError(f"{size} bytes of inputs where there are {done}")
            done += read

    def spoil(self) -> None:
        """Change a word in each page of the inputs: their call is over."""
        import torch

        words = torch.frombuffer(self._view, dtype=torch.int64)
        words[random.randrange(min(PAGE_WORDS, len(words))) :: PAGE_WORDS].bitwise_not_()

    def __del__(self) -> None:
        os.close(self.fd)


def _address(memory: memoryview) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(memory))
