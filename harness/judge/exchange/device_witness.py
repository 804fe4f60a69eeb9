"""What the device does for other processes while it should work for the judge alone.

A kernel of one thread reads the device's clock again and again. A device works for one process at a
time, so the kernel stands still while another process has the device: a gap between two readings,
which is as long as the other's work and the switches there and back. The kernel also reads a word
of host memory each time. Where the copy engines, which need no switch, move data from the host
meanwhile, that reading takes several times as long. Memory that the driver clears by itself is seen
in what the process takes, see fresh_memory.

A worker's calls wait in its stream for the judge's word. Whatever its process does on the device
before that word, or after the judge's clock has stopped, is seen here.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import statistics
import time
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

from ...targets import cuda, nvml
from ...wire import device_memory
from ...wire.device_memory import Pointer, call_driver
from ...wire.stream_words import SharedWords
from . import device_clock
from .fresh_memory import FreshMemory

# Measured on an H100, see benchmarks/results/gpu_witness_h100.md. Gaps are 300 us longer than the
# other process's work (293 us on another day); without other work readings are 1.2 us apart, and
# at most 7 us. While data come from the host they are 3 us apart.
SWITCHES_NS, GAP_NS, SLOW_NS = 290_000, 100_000, 2_500
# the most of slow readings in a watch that is not counted: single readings are slow without a cause
USUAL_SLOW_NS = 100_000
# gaps of a watch that last one time slice together: where a stream waits for another one of its
# process, that has the device for a whole slice without any work
SLICE_NS = range(2_000_000, 2_300_000)
STARTS = 10  # by which the usual time to start on an idle device is measured
# The most that counts as usual: 20 us on an H100, 70 to 80 us on an H200 (twice the median). Beside
# a kernel that somebody left running 4.7 ms were measured, and as much work would have been free.
MOST_USUAL_START_NS = 200_000
LINGER_NS = 2_500_000  # more than a time slice, 2.1 to 2.4 ms
LIMIT_NS = 10_000_000_000  # after which the kernel ends by itself
LOOK_S = 0.01  # between two checks of the device

# places of words of 32 bits; the last two values take two words each
_STOP, _STARTED, _ENDED, _GAPS, _SLOW = 0, 1, 2, 4, 6
_WATCH = b"""
.version 7.0
.target sm_70
.address_size 64
.visible .entry watch(.param .u64 words, .param .u32 number, .param .u64 switches,
                      .param .u64 least, .param .u64 slow, .param .u64 limit)
{
  .reg .pred %p;
  .reg .u32 %number, %word, %left;
  .reg .u64 %words, %switches, %least, %slow, %limit, %begin, %before, %now, %gap, %gaps, %slows;
  ld.param.u64 %words, [words];
  ld.param.u32 %number, [number];
  ld.param.u64 %switches, [switches];
  ld.param.u64 %least, [least];
  ld.param.u64 %slow, [slow];
  ld.param.u64 %limit, [limit];
  mov.u64 %gaps, 0;
  mov.u64 %slows, 0;
  mov.u64 %begin, %globaltimer;
  mov.u64 %before, %begin;
  st.volatile.global.u32 [%words+4], %number;
again:
  mov.u64 %now, %globaltimer;
  sub.u64 %gap, %now, %before;
  mov.u64 %before, %now;
  setp.lt.u64 %p, %gap, %slow;
  @%p bra look;
  setp.ge.u64 %p, %gap, %least;
  @%p bra stood;
  add.u64 %slows, %slows, %gap;
  bra look;
stood:
  max.u64 %gap, %gap, %switches;
  sub.u64 %gap, %gap, %switches;
  add.u64 %gaps, %gaps, %gap;
  add.u64 %gaps, %gaps, 1;
look:
  sub.u64 %gap, %now, %begin;
  setp.gt.u64 %p, %gap, %limit;
  @%p bra over;
  ld.volatile.global.u32 %word, [%words];
  sub.u32 %left, %word, %number;
  setp.lt.s32 %p, %left, 0;
  @%p bra again;
over:
  st.volatile.global.u64 [%words+16], %gaps;
  st.volatile.global.u64 [%words+24], %slows;
  membar.sys;
  st.volatile.global.u32 [%words+8], %number;
  ret;
}
"""


class Witness:
    """Watches the device during one burst, one watch after another, in the current stream.
    beside_ns: the device's work for other processes that it has seen in the burst, without
    switches, or how long the device kept it waiting. held_ns: time slices in which another process
    had the device, whether it worked or not. fresh_ns: what it would cost to clear the memory that
    somebody has taken from the driver."""

    def __init__(self) -> None:
        fd = SharedWords.file()
        self._words, self._number = SharedWords(fd), 0
        os.close(fd)
        module, self._function = Pointer(), Pointer()
        call_driver("cuModuleLoadData", ctypes.byref(module), _WATCH)
        call_driver("cuModuleGetFunction", ctypes.byref(self._function), module, b"watch")
        self.beside_ns = self.held_ns = self.fresh_ns = self._began_ns = 0
        self._fresh = FreshMemory(nvml.used_bytes_reader(cuda.device_id()))
        device_clock.flush_memory()  # allocated now, since to do so may wait for the device
        self._usual_start_ns = self._measure_start()

    def _measure_start(self) -> int:
        """Return the usual nanoseconds until a watch runs on an idle device. The first one loads
        the kernel."""
        self._usual_start_ns, late_ns = 0, []
        for _ in range(1 + STARTS):
            before_ns = self.beside_ns
            self.start()
            late_ns.append(self.beside_ns - before_ns)
            self.stop()
        self.forget()
        return usual_start_ns(late_ns[1:])

    @property
    def unseen_ns(self) -> int:
        """What nobody can tell: whether a process worked in its slice, and whether it used the
        memory that it took as cleared."""
        return self.held_ns + self.fresh_ns

    def forget(self) -> None:
        """Begin to add up anew."""
        self.beside_ns = self.held_ns = self.fresh_ns = 0
        self._fresh.forget()

    def start(self) -> None:
        """Begin a watch when all of the judge's own work is done, and return as soon as the device
        executes it."""
        import torch

        self._number += 1
        arguments: list[Any] = [
            ctypes.c_uint64(self._words.address(_STOP)),
            ctypes.c_uint32(self._number),
            *(ctypes.c_uint64(ns) for ns in (SWITCHES_NS, GAP_NS, SLOW_NS, LIMIT_NS)),
        ]
        places = (Pointer * len(arguments))(*map(ctypes.addressof, arguments))
        stream = torch.cuda.current_stream().cuda_stream
        torch.cuda.synchronize()
        self._began_ns = time.perf_counter_ns()
        call_driver(
            "cuLaunchKernel", self._function, 1, 1, 1, 1, 1, 1, 0, Pointer(stream), places, None
        )
        self._await(_STARTED)
        late_ns = time.perf_counter_ns() - self._began_ns
        self.beside_ns += max(0, late_ns - self._usual_start_ns)
        self._fresh.start()

    def stop(self) -> None:
        """End the watch; what is queued behind it runs from now on. Time after its limit counts as
        work beside the judge."""
        if self._words[_STOP] != self._number:
            watched_ns = time.perf_counter_ns() - self._began_ns
            self.beside_ns += max(0, watched_ns - LIMIT_NS)
            self._words[_STOP] = self._number
            self._fresh.stop()

    def note(self) -> None:
        """Add what the watch has seen that was stopped last, once the device has ended it."""
        self._await(_ENDED)
        gaps_ns, slow_ns = (
            self._words[word] | self._words[word + 1] << 32 for word in (_GAPS, _SLOW)
        )
        if gaps_ns in SLICE_NS:
            self.held_ns += gaps_ns
        else:
            self.beside_ns += gaps_ns
        self.beside_ns += max(0, slow_ns - USUAL_SLOW_NS)
        self.fresh_ns += self._fresh.cost_ns()

    def finish(self, *, late: bool) -> None:
        """End the watch and add what it has seen. late: after one more time slice, in which
        whatever else is ready to run gets the device."""
        if late:
            time.sleep(1e-9 * LINGER_NS)
        self.stop()
        self.note()
        self._fresh.forget()  # the worker is stopped, and what the judge takes now is its own

    def _await(self, word: int) -> None:
        import torch

        look = time.monotonic() + LOOK_S
        end = look + 2e-9 * LIMIT_NS
        while self._words[word] != self._number:
            if time.monotonic() < look:
                continue
            look = time.monotonic() + LOOK_S
            torch.cuda.current_stream().query()  # raises where the device is lost
            if look > end:
                raise RuntimeError(
                    "the device does not run a kernel of one thread: look at nvidia-smi and at the "
                    "kernel's log (dmesg, lines with Xid), and end other processes on the device"
                )


def usual_start_ns(late_ns: Sequence[int]) -> int:
    """Return twice the median of these starts, at most what a start on an idle device can take."""
    return min(MOST_USUAL_START_NS, 2 * round(statistics.median(late_ns)))


@cache
def _witness() -> Witness:
    return Witness()


def is_ready() -> bool:
    """Return whether this judge has its witness."""
    return bool(_witness.cache_info().currsize)


def prepare() -> None:
    """Make the witness: it measures the device, which should do no work for anybody."""
    _witness()


@contextlib.contextmanager
def watching() -> Iterator[Witness]:
    """Begin a watch while the device should be idle, and end the last one with the context at the
    latest. Device memory that is not needed any more is unmapped afterwards, since that waits for
    the device."""
    witness = _witness()
    witness.forget()
    witness.start()
    with device_memory.unmapping_later():
        try:
            yield witness
        finally:
            witness.stop()
