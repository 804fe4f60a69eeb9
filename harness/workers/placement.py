"""Where a worker's tensors live while it runs: host memory, or a device with its own clock and
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
FLUSH_BYTES = 256 << 20  # more than any last-level cache of the devices at hand (an H200 has 60 MB)
QUEUE_NS = 200_000  # to queue a call from Python, at least, and once more for each burst
CYCLES_PER_NS = 2.0  # of an SM, at most: a faster clock than this would end the spin early
# Importing inductor asks for GPUs: through the driver, no fork of that process could use one.
NO_DEVICE_YET = {"PYTORCH_NVML_BASED_CUDA_CHECK": "1"}


def is_host(device: str) -> bool:
    """Whether a torch device is the host's own memory and processor."""
    return device == HOST


def move(value: Any, device: str) -> Any:
    """The same structure with its tensors on `device`."""
    return map_tensors(value, lambda t: t.to(device))


def finish(device: str) -> None:
    """Return when everything that was asked of the device is done."""
    if not is_host(device):
        import torch

        torch.cuda.synchronize(device)


def enable_devices() -> None:
    """First thing in a process that may use a GPU: torch counts devices as the driver does. By
    itself it asks the management library, which from within a sandbox names none, and then
    torch.compile and Triton find no device."""
    import torch

    for name in NO_DEVICE_YET:
        os.environ.pop(name, None)
    torch.cuda._cached_device_count = torch._C._cuda_getDeviceCount()
    device_memory.share_allocations()


def use_threads(count: int) -> None:
    """Set torch's thread count, and let new threads make their first call on something that nobody
    looks at: in 2 of 100 forked processes the first vectorized tanh of a thread was off by 5e-5
    (torch 2.13 with MKL), and right from the second on."""
    import torch

    torch.set_num_threads(count)
    if count > 1:
        for function in (torch.tanh, torch.exp, torch.log1p, torch.sin):
            function(torch.zeros(count << 16))


class HostClock:
    """Calls on the CPU are over when they return."""

    def __init__(self, _now: Callable[[], int] = time.perf_counter_ns) -> None:
        self._now = _now

    def prepare(self, queue_ns: int, *, cold: bool = True) -> None:
        """Nothing is pending, and rotating inputs keep the caches cold."""

    def start(self, calls: int) -> None:
        self._start = self._now()

    def stop(self) -> tuple[int, int]:
        """Nanoseconds since start, and the same again: the host's time is the device's."""
        elapsed = self._now() - self._start
        return elapsed, elapsed

    def waiting(self, call: Callable[[Any], Any], arguments: list[Any]) -> int:
        """Nanoseconds of calls that are waited for one by one."""
        start = self._now()
        for inputs in arguments:
            call(inputs)
        return self._now() - start


class DeviceClock:
    """Device events around the calls, after a spin that lets the host queue them: a kernel of a few
    microseconds is not judged by the gaps that launching from Python leaves. The caches are flushed
    before."""

    def __init__(self, device: str, _now: Callable[[], int] = time.perf_counter_ns) -> None:
        import torch

        self._now = _now
        self._cuda = torch.cuda
        self._spin: Callable[[int], None] = torch.cuda._sleep
        self._device = device
        self._flush = torch.empty(FLUSH_BYTES // 4, dtype=torch.int32, device=device)
        self._begin, self._end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]

    def prepare(self, queue_ns: int, *, cold: bool = True) -> None:
        """Wait for copies; give back what was set aside of the L2 to persist; if `cold`, evict what
        else is in it. queue_ns: spin at least so long."""
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
        """Nanoseconds between the events once the device is idle, and those that the host took to
        queue the calls."""
        queued = self._now() - self._start
        self._end.record()
        self._cuda.synchronize(self._device)
        return int(self._begin.elapsed_time(self._end) * 1e6), queued

    def waiting(self, call: Callable[[Any], Any], arguments: list[Any]) -> int:
        """Nanoseconds of calls that are waited for one by one: launching, running and hearing of
        the end."""
        start = self._now()
        for inputs in arguments:
            call(inputs)
            self._cuda.synchronize(self._device)
        return self._now() - start


_PERSISTING_L2_CACHE_SIZE = 6  # CUlimit of cuda.h


def _forget_persisting_lines() -> None:
    """A part of the L2 that a kernel reserved, and lines marked persisting, would outlive every
    flush. Of the current context; devices without the feature refuse, and have nothing to
    forget."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return
    driver.cuCtxSetLimit(_PERSISTING_L2_CACHE_SIZE, ctypes.c_size_t(0))
    driver.cuCtxResetPersistingL2Cache()


def clock(device: str) -> HostClock | DeviceClock:
    """The clock for calls on a device."""
    return HostClock() if is_host(device) else DeviceClock(device)
