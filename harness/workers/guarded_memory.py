"""Guarded memory: bytes between pages that nobody may touch, on a CPU, or between margins that are
looked at afterwards, on a device; filled with a pattern until something is written."""

from __future__ import annotations

import mmap
import sys
from dataclasses import dataclass
from typing import Any

from ..wire import buffers
from ..wire.layouts import LINE
from ..wire.memory_files import PAGE
from .memory_faults import protect

FRESH = buffers.FILL  # of every byte that nobody has written
MARGIN = 16384  # bytes on each side of a tensor on a device
MOST_UNUSED_BYTES = 1 << 30  # between two bursts


@dataclass(frozen=True)
class _GuardedMemory:
    """Guarded host memory. inner: bytes between its protected pages."""

    inner: int
    memory: mmap.mmap
    address: int  # of the inner bytes

    @property
    def references(self) -> int:
        """Of this object and of the tensors that lie in the memory."""
        return sys.getrefcount(self.memory)


_mappings: list[_GuardedMemory] = []
_UNUSED = _GuardedMemory(PAGE, mmap.mmap(-1, PAGE), 0).references


def host_bytes(nbytes: int) -> tuple[Any, int]:
    """The readable bytes of a mapping between two protected pages, and where in them a tensor
    starts so that it ends at the second one (up to its alignment). A mapping of this size that no
    tensor uses any more serves again: fresh pages cost ten times what the kernel takes to fill
    them (seen with 64 MiB)."""
    import torch

    slack = -nbytes % LINE
    inner = -(-(nbytes + slack) // PAGE) * PAGE
    mapping = next((m for m in _mappings if m.inner == inner and m.references == _UNUSED), None)
    try:
        memory = (
            mapping.memory
            if mapping
            else mmap.mmap(-1, inner + 2 * PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        )
    except OSError as error:
        raise MemoryError(f"{nbytes} bytes for a tensor: {error.strerror}") from error
    whole = torch.frombuffer(memory, dtype=torch.uint8)
    if mapping is None:
        mapping = _GuardedMemory(inner, memory, whole.data_ptr() + PAGE)
        _mappings.append(mapping)
        for offset in (0, PAGE + inner):
            protect(whole.data_ptr() + offset)
    else:
        protect(mapping.address, inner, mmap.PROT_READ | mmap.PROT_WRITE)
    return whole[PAGE : PAGE + inner].fill_(FRESH), inner - nbytes - slack


def protect_unused() -> None:
    """Forbid touching memory that no tensor uses, until it serves again: a pointer that a kernel
    has kept shows. Where there is much of it, give it back."""
    unused = [m for m in _mappings if m.references == _UNUSED]
    if sum(m.inner for m in unused) > MOST_UNUSED_BYTES:
        _mappings[:] = [m for m in _mappings if m.references != _UNUSED]
        return
    for mapping in unused:
        protect(mapping.address, mapping.inner)


def release() -> None:
    """Give back the memory that is kept for tensors of the same size."""
    _mappings.clear()


def device_bytes(nbytes: int, device: Any) -> tuple[Any, int]:
    """Bytes of a device with a margin on each side, and where in them a tensor starts."""
    import torch

    return torch.full(
        (MARGIN + -(-nbytes // 512) * 512 + MARGIN,), FRESH, dtype=torch.uint8, device=device
    ), MARGIN
