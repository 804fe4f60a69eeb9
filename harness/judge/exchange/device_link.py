"""The judge's side of the memory shared with one worker on a device: a window in which inputs
appear, and the worker's own allocations with its outputs, mapped in the judge."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from ...settings import DEVICE_MEMORY, through_host_memory
from ...wire import device_memory, memory_files
from ...wire.device_memory import STEP, DeviceMemoryError, DeviceRegion
from ...wire.layouts import Layout
from ...wire.stream_words import SharedWords
from ..errors import Interfered, WorkerDied, WorkerFailed, WorkerTimeout
from ..processes.worker import Worker
from .input_sets import InputSet

if TYPE_CHECKING:
    import torch

MOST_ALLOCATIONS, MOST_BYTES = 1 << 14, 1 << 39  # limits for a worker; no device has as much
WINDOW_SECONDS = 30.0
COMPARED_BYTES = 64 << 20  # at once, since comparing takes a byte for each
KEPT_BYTES = 1 << 30  # unused memory that the judge keeps


@dataclass(frozen=True)
class WindowPlan:
    """Where input sets will appear in the window. where: for each its start and the index of its
    layout. copies: (start, source, start in the source, bytes) of the copies to make."""

    layouts: list[Layout]
    where: list[tuple[int, int]]
    copies: list[tuple[int, torch.Tensor, int, int]]


class DeviceLink:
    """The memory shared with one worker. words: the judge's word, then the worker's. All methods
    raise what Worker.ask raises, and DeviceMemoryError where the driver refuses."""

    def __init__(self, worker: Worker, nbytes: int) -> None:
        # closed: the worker may not share memory now
        self._worker, self.number, self.closed = worker, 0, False
        self._allocations: dict[int, tuple[int, int]] = {}  # worker's address -> handle, bytes
        # address // STEP -> address of the allocation
        self._starts: dict[int, int] = {}
        # addresses of the first and last allocation -> bytes
        self._mapped: dict[tuple[int, int], Any] = {}
        words = SharedWords.file()
        try:
            self.words = SharedWords(words)
            worker.on_memory = self._remember
            self._take_window(nbytes, [words])
        finally:
            os.close(words)

    def place(self, sets: Sequence[InputSet]) -> WindowPlan:
        """Plan places in the window for these sets, one after another; enlarge it if needed."""
        layouts: list[Layout] = []
        where: list[tuple[int, int]] = []
        copies: list[tuple[int, torch.Tensor, int, int]] = []
        start = 0
        for input_set in sets:
            number = next(
                (n for n, layout in enumerate(layouts) if layout is input_set.layout), len(layouts)
            )
            if number == len(layouts):
                layouts.append(input_set.layout)
            where.append((start, number))
            stride = -(-int(input_set.layout["bytes"]) // memory_files.PAGE) * memory_files.PAGE
            source = input_set.file.bytes
            assert source is not None  # a set for a device
            if (
                copies
                and copies[-1][1] is source
                and copies[-1][2] + copies[-1][3] == input_set.base
            ):
                before, _, base, nbytes = copies.pop()
                copies.append((before, source, base, nbytes + stride))
            else:
                copies.append((start, source, input_set.base, stride))
            start += stride
        if start > self._region.nbytes:
            self._take_window(start, [])
        return WindowPlan(layouts, where, copies)

    def put(self, plan: WindowPlan) -> None:
        """Copy the sets into the window, on the current stream."""
        for start, source, base, nbytes in plan.copies:
            self._region.bytes[start : start + nbytes].copy_(
                source[base : base + nbytes], non_blocking=True
            )

    def is_intact(self, plan: WindowPlan) -> bool:
        """Return whether the window still holds the sets. A process can map it once more and write
        there, or give it out as its own memory."""
        import torch

        return all(
            torch.equal(
                self._region.bytes[start + at : start + min(at + COMPARED_BYTES, nbytes)],
                source[base + at : base + min(at + COMPARED_BYTES, nbytes)],
            )
            for start, source, base, nbytes in plan.copies
            for at in range(0, nbytes, COMPARED_BYTES)
        )

    def show(self, input_set: InputSet) -> int:
        """Copy one set into the window and return its start there."""
        import torch

        plan = self.place([input_set])
        self.put(plan)
        torch.cuda.synchronize()
        return plan.where[0][0]

    def bytes_at(self, address: int, nbytes: int) -> torch.Tensor:
        """Return bytes of the worker's memory. Raises Interfered where it has not shared them."""
        first = at = self._starts.get(address // STEP, -1)
        run: list[tuple[int, int]] = []
        while not run or at < address + nbytes:
            if at not in self._allocations:
                raise Interfered("an output lies in device memory that it has not shared")
            last, allocation = at, self._allocations[at]
            run.append(allocation)
            at += allocation[1]
        if (first, last) not in self._mapped:
            try:
                self._mapped[first, last] = device_memory.map_allocations(run, writable=True)
            except DeviceMemoryError as error:
                raise Interfered(
                    f"device memory that it shares cannot be mapped: {error}"
                ) from error
        memory: torch.Tensor = self._mapped[first, last][address - first : address - first + nbytes]
        return memory

    def _remember(self, address: int, nbytes: int, fd: int) -> None:
        """Register an allocation of the worker's, in place of earlier ones at its addresses."""
        total = sum(size for _, size in self._allocations.values())
        bad = (
            self.closed
            or not nbytes
            or address % STEP
            or nbytes % STEP
            or total + nbytes > MOST_BYTES
        )
        if bad or len(self._allocations) >= MOST_ALLOCATIONS:
            raise Interfered(f"it shares {nbytes} bytes of device memory at {address:#x}")
        for old in {
            self._starts[step]
            for step in range(address // STEP, (address + nbytes) // STEP)
            if step in self._starts
        }:
            handle, size = self._allocations.pop(old)
            device_memory.release(handle)
            for step in range(old // STEP, (old + size) // STEP):
                self._starts.pop(step, None)
            self._mapped = {
                ends: mapping
                for ends, mapping in self._mapped.items()
                if not ends[0] <= old <= ends[1]
            }
        try:
            self._allocations[address] = (device_memory.import_allocation(fd), nbytes)
        except DeviceMemoryError as error:
            raise Interfered(f"what it shares is not device memory: {error}") from error
        self._starts.update(
            dict.fromkeys(range(address // STEP, (address + nbytes) // STEP), address)
        )

    def _take_window(self, nbytes: int, words: list[int]) -> None:
        self._region = DeviceRegion(nbytes)
        fd = self._region.export()
        try:
            self._worker.ask(
                "window", [fd, *words], seconds=WINDOW_SECONDS, nbytes=self._region.nbytes
            )
        finally:
            os.close(fd)

    def close(self) -> None:
        """Release the worker's memory, whoever still refers to this object."""
        self._mapped.clear()
        while self._allocations:
            device_memory.release(self._allocations.popitem()[1][0])
        self.words.close()

    def __del__(self) -> None:
        with contextlib.suppress(Exception):  # the constructor may have failed
            self.close()


def give_back() -> None:
    """Release this process's unused device memory to the workers if there is much of it: comparing
    gigabytes of outputs in double precision takes several times as much."""
    import torch

    if torch.cuda.memory_reserved() - torch.cuda.memory_allocated() > KEPT_BYTES:
        torch.cuda.empty_cache()


def free_bytes() -> int:
    """Return the free device memory after this process has released its unused memory."""
    import torch

    torch.cuda.empty_cache()
    return int(torch.cuda.mem_get_info()[0])


def free_share() -> float:
    """Return the free share of the device's memory."""
    import torch

    return free_bytes() / int(torch.cuda.mem_get_info()[1])


def is_want_of_memory(error: Exception) -> bool:
    """Return whether the device had no memory left for the judge itself."""
    import torch

    return isinstance(error, torch.OutOfMemoryError) or (
        isinstance(error, DeviceMemoryError) and "out of memory" in str(error)
    )


def freed_by_ending(worker: Worker) -> int:
    """End the worker and return how many bytes of the device this has freed."""
    before = free_bytes()
    worker.kill()
    worker.wait_for_end()
    return free_bytes() - before


def link(worker: Worker) -> DeviceLink:
    """Return the link to this worker; create it at first use."""
    if worker.link is None:
        worker.link = DeviceLink(worker, STEP)
    device_link: DeviceLink = worker.link
    return device_link


def sharing_obstacle() -> str:
    """Return why device memory cannot be shared on this machine, as far as the judge can tell by
    itself; "" where it can."""
    if through_host_memory():
        return f"{DEVICE_MEMORY} requires it"
    if os.environ.get("CUDA_MPS_PIPE_DIRECTORY") or os.path.exists("/tmp/nvidia-mps/control"):
        return (
            "a Multi-Process Service is running, under which processes use the device at the same "
            "time"
        )
    return _driver_refusal()


@cache
def _driver_refusal() -> str:
    try:
        os.close(DeviceRegion(STEP).export())
        return ""
    except (DeviceMemoryError, RuntimeError) as error:
        return str(error).splitlines()[0][:200]


def refusal(worker: Worker) -> str:
    """Return why the judge and this machine's confined processes cannot share device memory; ""
    where they can."""
    if reason := sharing_obstacle():
        return reason
    try:
        link(worker)
        return ""
    except (
        DeviceMemoryError,
        WorkerFailed,
        WorkerDied,
        WorkerTimeout,
        Interfered,
        RuntimeError,
    ) as error:
        return (str(error) or type(error).__name__).splitlines()[0][:200]
