"""Calls on a CPU that are billed by processor time, as the kernel counts it for the worker's
process.

The worker sleeps until all inputs are there, and again when its outputs are; the judge then reads
these in the worker's memory. The process is billed for everything it does, regardless of when it
reports that it is done. If it waits for work of another process, this shows in the time by the
judge's clock, which is recorded as well.
"""

from __future__ import annotations

import os
import random
import time

from ...wire import memory_files
from ..processes.freezing import go_on, is_running, stop
from .calls import Caller
from .case_pool import CasePool
from .input_sets import InputSet
from .ready_memory import NOTHING_READY, ReadyBytes, ReadyMemory
from .wake import Wake
from .worker_outputs import OutputPlace, interference

PAGE_WORDS = 512  # of 64 bits, in the smallest page


class BilledCaller(Caller):
    """A caller whose worker sleeps between calls and is billed by processor time."""

    def _link(self, pool: CasePool) -> list[int]:
        self._table, self._orders = Table(int(self._layout["bytes"])), 0
        self._wake = Wake(self._worker, trusted=self._trusted)
        self._there: InputSet | None = None  # the set whose inputs are in the table, unspoilt
        self._ready = ReadyMemory(self._process)
        return [self._table.fd, self._wake.fd]

    def _hand_over(self, input_set: InputSet | None) -> int:
        if input_set is not None and input_set is not self._there:
            self._table.put(input_set)
            self._there = input_set
        self._orders += 1
        began = time.perf_counter_ns()
        self._wake.signal()
        if self._wake.was_full:
            raise interference(self._worker, "it filled the event by which it is woken")
        return began

    def _is_done(self) -> bool:
        return self._gate.done >= self._orders

    def _usage(self) -> tuple[int, int]:
        """Return the usage once all threads of the process sleep, including one that continues
        after the report that all is done. The kernel updates a running thread's bill only at its
        ticks, which are milliseconds apart."""
        while is_running(self._process):
            self._check_deadline()
        return super()._usage()

    def _collect(self, slot: memoryview | None) -> list[OutputPlace]:
        places = self._outputs.places(self._gate)
        if slot is None:
            return places
        self._table.spoil()  # also changes an output that is not a copy but the inputs' own pages
        self._there = None
        self._outputs.read(places, slot)
        return places

    def _bytes_ready(
        self, places: list[list[OutputPlace]], warm: int, *, unread: bool
    ) -> ReadyBytes:
        if self._trusted:
            return NOTHING_READY
        found, measured = NOTHING_READY, places[warm:]
        if unread:
            self._ready.forget()
        else:
            found = ReadyBytes(
                self._ready.bytes_ready(measured),
                self._ready.bytes_ready(places[:warm]),
                self._ready.bytes_of_files(measured),
            )
        self._ready.note(places)
        return found

    def _figure(self, elapsed_ns: int, bill_ns: int) -> int:
        return bill_ns

    def close(self) -> None:
        super().close()
        self._wake.close()


class ClockedCaller(BilledCaller):
    """For calls on every core, whose figure is the judge's clock: of several threads a bill is the
    sum. The worker stands still while no clock runs, or it would compute while inputs are copied
    in, and until its outputs were read (4 to 6 times as fast by the figure, seen with two
    threads)."""

    def _link(self, pool: CasePool) -> list[int]:
        self._stopped: set[int] = set()
        return super()._link(pool)

    def _hand_over(self, input_set: InputSet | None) -> int:
        stop(self._worker.root, self._stopped)
        began = super()._hand_over(input_set)
        go_on(self._stopped)
        return began

    def _order(
        self,
        order: int,
        number: int = 0,
        plain: bytes = b"",
        input_set: InputSet | None = None,
    ) -> int:
        elapsed_ns = super()._order(order, number, plain, input_set)
        stop(self._worker.root, self._stopped)
        return elapsed_ns

    def _figure(self, elapsed_ns: int, bill_ns: int) -> int:
        return elapsed_ns

    def close(self) -> None:
        go_on(self._stopped)
        super().close()


class Table:
    """Memory in which the inputs of a call appear, for one worker, which cannot write to it."""

    def __init__(self, size: int) -> None:
        self._size = max(size, memory_files.PAGE)
        self.fd = memory_files.create("arriving", self._size)
        self._view = memoryview(memory_files.map_shared(self.fd, self._size))
        memory_files.seal_for_others(self.fd)

    def put(self, input_set: InputSet) -> None:
        """Copy a set's inputs into the table."""
        offset, size = 0, int(input_set.layout["bytes"])
        while offset < size:
            read = os.preadv(input_set.file.fd, [self._view[offset:size]], input_set.base + offset)
            if not read:
                raise ValueError(f"{size} bytes of inputs where there are {offset}")
            offset += read

    def spoil(self) -> None:
        """Change a word in each page of the inputs after their call."""
        import torch

        words = torch.frombuffer(self._view, dtype=torch.int64)
        words[random.randrange(min(PAGE_WORDS, len(words))) :: PAGE_WORDS].bitwise_not_()

    def __del__(self) -> None:
        os.close(self.fd)
