"""Reading and writing what lies in another process's memory."""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Sequence

from ...workers.gate_links import Part

MOST_PARTS = 512  # of memory in one system call; IOV_MAX is 1024

_libc = ctypes.CDLL(None, use_errno=True)


def copy(process: int, parts: Sequence[tuple[int, memoryview]]) -> None:
    """Each from an address there to memory here, by process_vm_readv(2), as often as it takes.
    Raises OSError: EFAULT for what is not there, ESRCH for a process that has ended."""
    for start in range(0, len(parts), MOST_PARTS):
        some = parts[start : start + MOST_PARTS]
        here = (Part * len(some))(*(Part(_address(to), len(to)) for _, to in some))
        there = (Part * len(some))(*(Part(address, len(to)) for address, to in some))
        count = ctypes.c_ulong(len(some))
        read = _libc.process_vm_readv(process, here, count, there, count, ctypes.c_ulong(0))
        if read != sum(len(to) for _, to in some):
            number = ctypes.get_errno() if read < 0 else errno.EFAULT
            raise OSError(number, os.strerror(number))


def write(process: int, address: int, data: bytes) -> None:
    """By process_vm_writev(2). Raises OSError: EFAULT for what is not there or read-only, ESRCH for
    a process that has ended."""
    own = ctypes.create_string_buffer(data, len(data))
    here = Part(ctypes.addressof(own), len(data))
    there, one = Part(address, len(data)), ctypes.c_ulong(1)
    written = _libc.process_vm_writev(
        process, ctypes.byref(here), one, ctypes.byref(there), one, ctypes.c_ulong(0)
    )
    if written != len(data):
        number = ctypes.get_errno() if written < 0 else errno.EFAULT
        raise OSError(number, os.strerror(number))


def _address(memory: memoryview) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(memory))
