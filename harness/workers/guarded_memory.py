"""Guarded memory: bytes between inaccessible pages on a CPU, or between margins that are checked
afterwards on a device. It is filled with a pattern until it is written."""

from __future__ import annotations

import mmap
import sys
from dataclasses import dataclass
from typing import Any

from ..wire import buffers
from ..wire.layouts import LINE
from ..wire.memory_files import PAGE
from .memory_faults import protect

FRESH = buffers.FILL  # every byte that has not been written
MARGIN = 16384  # bytes on each side of a tensor on a device
MOST_UNUSED_BYTES = 1 << 30  # the most that is kept between two bursts


@dataclass(frozen=True)
class _GuardedMemory:
    """Guarded host memory. inner: bytes between its protected pages."""

    inner: int
    memory: mmap.mmap
    address: int  # of the inner bytes

    @property
    def references(self) -> int:
        """The number of references to the memory, by this object and by tensors in it."""
        return sys.getrefcount(self.memory)


_mappings: list[_GuardedMemory] = []
_UNUSED = _GuardedMemory(PAGE, mmap.mmap(-1, PAGE), 0).references


def host_bytes(nbytes: int) -> tuple[Any, int]:
    """Return the accessible bytes of a mapping between two protected pages, and the start of a
    tensor in them that ends at the second page (up to its alignment). A mapping of this size that
    no tensor uses any more is reused: getting fresh pages takes ten times as long as filling them
    (seen with 64 MiB)."""
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
    """Forbid access to memory that no tensor uses until it is reused, which reveals a kernel that
    has kept a pointer. Too much unused memory is released instead."""
    unused = [m for m in _mappings if m.references == _UNUSED]
    if sum(m.inner for m in unused) > MOST_UNUSED_BYTES:
        _mappings[:] = [m for m in _mappings if m.references != _UNUSED]
        return
    for mapping in unused:
        protect(mapping.address, mapping.inner)


def release() -> None:
    """Release the memory that is kept for reuse."""
    _mappings.clear()


def device_bytes(nbytes: int, device: Any) -> tuple[Any, int]:
    """Return bytes on a device with a margin on each side, and the start of a tensor in them."""
    import torch

    return torch.full(
        (MARGIN + -(-nbytes // 512) * 512 + MARGIN,), FRESH, dtype=torch.uint8, device=device
    ), MARGIN
