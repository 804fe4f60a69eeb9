"""The place of a running worker's tensors: host memory, or a device with its own clock and
caches."""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Callable
from typing import Any

from ..wire import device_memory
from ..wire.nesting import map_tensors

HOST = "cpu"  # torch's name
FLUSH_BYTES = 256 << 20  # more than any last-level cache of supported devices (an H200 has 60 MB)
QUEUE_NS = 200_000  # the least time allowed to queue a call from Python; once more for each burst
CYCLES_PER_NS = 2.0  # the fastest clock of an SM: a faster one would end the spin early
# Importing inductor looks for GPUs. If it used the driver, no fork of that process could use one.
NO_DEVICE_YET = {"PYTORCH_NVML_BASED_CUDA_CHECK": "1"}


def is_host(device: str) -> bool:
    """Return whether a torch device is the host's own memory and processor."""
    return device == HOST


def move(value: Any, device: str) -> Any:
    """Return the structure with its tensors on `device`."""
    return map_tensors(value, lambda t: t.to(device))


def finish(device: str) -> None:
    """Wait until all work of the device is done."""
    if not is_host(device):
        import torch

        torch.cuda.synchronize(device)


def enable_devices() -> None:
    """Make torch count devices as the driver does. Call it first in a process that may use a GPU.
    By default torch asks the management library, which reports none inside a sandbox, and then
    torch.compile and Triton find no device."""
    import torch

    for name in NO_DEVICE_YET:
        os.environ.pop(name, None)
    torch.cuda._cached_device_count = torch._C._cuda_getDeviceCount()
    device_memory.share_allocations()


def use_threads(count: int) -> None:
    """Set torch's thread count, and let new threads make their first calls on data that are thrown
    away: in 2 of 100 forked processes a thread's first vectorized tanh was wrong by 5e-5 (torch
    2.13 with MKL), and right from the second call on."""
    import torch

    torch.set_num_threads(count)
    if count > 1:
        for function in (torch.tanh, torch.exp, torch.log1p, torch.sin):
            function(torch.zeros(count << 16))


class HostClock:
    """The clock for calls on the CPU, which are complete when they return."""

    def __init__(self, _now: Callable[[], int] = time.perf_counter_ns) -> None:
        self._now = _now

    def prepare(self, queue_ns: int, *, cold: bool = True) -> None:
        """Do nothing: no work is pending, and rotating inputs keep the caches cold."""

    def start(self, calls: int) -> None:
        self._start = self._now()

    def stop(self) -> tuple[int, int]:
        """Return the nanoseconds since start twice: here the device's time is the host's."""
        elapsed = self._now() - self._start
        return elapsed, elapsed

    def waiting(self, call: Callable[[Any], Any], arguments: list[Any]) -> int:
        """Return the nanoseconds of calls that are waited for one by one."""
        start = self._now()
        for inputs in arguments:
            call(inputs)
        return self._now() - start


class DeviceClock:
    """A clock by device events around the calls, after a spin during which the host queues them, so
    that the gaps between launches from Python do not add to a kernel of a few microseconds. The
    caches are flushed before."""

    def __init__(self, device: str, _now: Callable[[], int] = time.perf_counter_ns) -> None:
        import torch

        self._now = _now
        self._cuda = torch.cuda
        self._spin: Callable[[int], None] = torch.cuda._sleep
        self._device = device
        self._flush = torch.empty(FLUSH_BYTES // 4, dtype=torch.int32, device=device)
        self._begin, self._end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]

    def prepare(self, queue_ns: int, *, cold: bool = True) -> None:
        """Wait for copies and release L2 lines that were set to persist. cold: also evict the rest
        of the L2. queue_ns: the least time to spin."""
        self._queue_ns = queue_ns
        _forget_persisting_lines()
        if cold:
            self._flush.zero_()
        self._cuda.synchronize(self._device)

    def start(self, calls: int) -> None:
        self._spin(int(max((calls + 1) * QUEUE_NS, self._queue_ns) * CYCLES_PER_NS))
        self._begin.record()
        self._start = self._now()

    def stop(self) -> tuple[int, int]:
        """Wait for the device. Returns the nanoseconds between the events, and those that the host
        took to queue the calls."""
        queued = self._now() - self._start
        self._end.record()
        self._cuda.synchronize(self._device)
        return int(self._begin.elapsed_time(self._end) * 1e6), queued

    def waiting(self, call: Callable[[Any], Any], arguments: list[Any]) -> int:
        """Return the nanoseconds of calls that are waited for one by one: launching, running and
        synchronizing."""
        start = self._now()
        for inputs in arguments:
            call(inputs)
            self._cuda.synchronize(self._device)
        return self._now() - start


_PERSISTING_L2_CACHE_SIZE = 6  # CUlimit of cuda.h


def _forget_persisting_lines() -> None:
    """Release reserved L2 space and persisting lines of the current context, which would survive
    every flush. Devices without this feature return an error, which is ignored."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return
    driver.cuCtxSetLimit(_PERSISTING_L2_CACHE_SIZE, ctypes.c_size_t(0))
    driver.cuCtxResetPersistingL2Cache()


def clock(device: str) -> HostClock | DeviceClock:
    """Return the clock for calls on a device."""
    return HostClock() if is_host(device) else DeviceClock(device)
