"""Explanations of memory faults: the tensor that an address lies in or next to.

The signal handler writes a line to the worker's log, where the judge finds it.
"""

from __future__ import annotations

import ctypes
import os
import platform
from dataclasses import dataclass
from typing import Any

from ..sandbox import syscalls
from ..wire.layouts import span
from ..wire.memory_files import PAGE

_PREFIX = "memory fault: "  # starts the line in the log that explanation() reads
_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True)
class Region:
    """Bytes of one tensor at an address."""

    label: str
    start: int
    nbytes: int


_regions: list[Region] = []
_handler: Any = None  # kept, so that the callback is not garbage-collected


def protect(address: int, nbytes: int = PAGE, allowed: int = 0) -> None:
    """Forbid access to these pages except what `allowed` permits (flags such as mmap.PROT_READ)."""
    if _libc.mprotect(ctypes.c_void_p(address), ctypes.c_size_t(nbytes), allowed) != 0:
        raise OSError(ctypes.get_errno(), "mprotect")


def watch(label: str, tensor: Any) -> None:
    """Register a tensor by name for explanations of faults."""
    nbytes = span(tensor.shape, tensor.stride()) * tensor.element_size()
    _regions.append(Region(label, tensor.data_ptr(), nbytes))


def forget() -> None:
    """Drop the names of all tensors watched so far."""
    _regions.clear()


def explain_faults() -> None:
    """Make a segmentation fault write one line to the log before it ends the process."""
    global _handler

    def on_fault(number: int, info: int, context: int) -> None:
        address = ctypes.c_uint64.from_address(info + 16).value  # si_addr
        wrote = None
        if platform.machine() == "x86_64":
            # the page fault's error code, bit 1
            wrote = bool(ctypes.c_uint64.from_address(context + 40 + 19 * 8).value & 2)
        os.write(2, f"\n{_PREFIX}{describe(address, wrote)}\n".encode())

    _handler = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)(on_fault)
    once = 0x80000000  # SA_RESETHAND: the instruction faults again, and that ends the process
    action = syscalls.SignalAction(
        ctypes.cast(_handler, ctypes.c_void_p).value,
        flags=ctypes.c_int(4 | once).value,
    )
    _libc.sigaction(11, ctypes.byref(action), None)


def describe(address: int, wrote: bool | None) -> str:
    """Say which watched tensor the address lies in or next to."""
    access = {True: "write to", False: "read of", None: "access to"}[wrote]
    nearest = min(
        _regions,
        key=lambda r: max(r.start - address, address - r.start - r.nbytes + 1, 0),
        default=None,
    )
    if nearest is None:
        return f"{access} address {address:#x}, next to no tensor"
    if nearest.start <= address < nearest.start + nearest.nbytes:
        return f"{access} byte {address - nearest.start} inside {nearest.label}"
    before = address < nearest.start
    distance = nearest.start - address if before else address - nearest.start - nearest.nbytes
    if distance > 1 << 20:
        return f"{access} address {address:#x}, next to no tensor"
    return (
        f"{access} memory {distance} bytes {'before the start' if before else 'after the end'} of "
        f"{nearest.label}"
    )


def explanation(log: str) -> str:
    """Return the handler's line from a worker's log, "" without one."""
    lines = [line for line in log.splitlines() if line.startswith(_PREFIX)]
    return lines[-1].removeprefix(_PREFIX)[:300] if lines else ""
