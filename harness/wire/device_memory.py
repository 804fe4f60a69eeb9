"""Memory of a CUDA device that two processes share, and words for which a stream waits.

Whoever owns a region allocates it with `cuMemCreate` and hands it over as a descriptor; another
process maps it, read-only if that is all it shall do (CUDA driver API, "Virtual Memory Management"
and "Stream Memory Operations"). Nothing passes through host memory. What torch allocates can be
handed over likewise where its allocator uses the same calls (see `share_allocations`).
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from . import memory_files

WORDS_BYTES = 4096
GO, DONE = 0, 1  # words: the judge's, the worker's
# of cuda.h: CUmemAllocationType, CUmemAllocationHandleType, …
_PINNED, _DESCRIPTOR, _DEVICE, _READ, _READ_WRITE = 1, 1, 1, 1, 3
STEP = 2 << 20  # bytes: no allocation of this kind is smaller, or ends between
_number, _size, _pointer = ctypes.c_ulonglong, ctypes.c_size_t, ctypes.c_void_p


class DeviceMemoryError(Exception):
    """The driver refused, in its own words."""


class _Location(ctypes.Structure):
    _fields_ = (("type", ctypes.c_int), ("id", ctypes.c_int))


class _Properties(ctypes.Structure):
    _fields_ = (
        ("type", ctypes.c_int),
        ("handles", ctypes.c_int),
        ("location", _Location),
        ("windows", _pointer),
        ("flags", ctypes.c_ubyte * 8),
    )


class _Access(ctypes.Structure):
    _fields_ = (("location", _Location), ("flags", ctypes.c_int))


@cache
def _driver() -> Any:
    """libcuda, in the context that torch uses. Raises DeviceMemoryError."""
    import torch

    torch.zeros(1, device="cuda")
    try:
        return ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        raise DeviceMemoryError(f"there is no NVIDIA driver here: {error}") from error


def _ask(function: str, *arguments: Any) -> None:
    driver = _driver()
    try:
        code = getattr(driver, function)(*arguments)
    except AttributeError as error:
        raise DeviceMemoryError(f"this driver has no {function}") from error
    if code:
        said = ctypes.c_char_p()
        driver.cuGetErrorString(code, ctypes.byref(said))
        raise DeviceMemoryError(f"{function}: {(said.value or b'').decode() or code}")


def share_allocations() -> None:
    """From now on torch allocates memory of a kind that can be handed over. Before its first
    allocation."""
    import torch

    # a version that knows no such setting: what it allocates is copied then
    with contextlib.suppress(Exception):
        torch.cuda.memory._set_allocator_settings("expandable_segments:True")


class _DeviceMapping:
    """Allocations (handle, bytes) one behind the other in this process's addresses, unmapped when
    nothing refers to this any more: torch's tensors over it do."""

    def __init__(self, handles: Sequence[tuple[int, int]], *, writable: bool) -> None:
        self.nbytes, self.address, self._mapped = sum(size for _, size in handles), 0, 0
        address = _number()
        _ask(
            "cuMemAddressReserve",
            ctypes.byref(address),
            _size(self.nbytes),
            _size(0),
            _number(0),
            _number(0),
        )
        self.address = address.value
        for handle, size in handles:
            _ask(
                "cuMemMap",
                _number(self.address + self._mapped),
                _size(size),
                _size(0),
                _number(handle),
                _number(0),
            )
            self._mapped += size
        access = _Access(_Location(_DEVICE, 0), _READ_WRITE if writable else _READ)
        _ask("cuMemSetAccess", address, _size(self.nbytes), ctypes.byref(access), _size(1))

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {
            "data": (self.address, False),
            "shape": (self.nbytes,),
            "typestr": "|u1",
            "version": 3,
        }

    def __del__(self) -> None:
        # the context is broken, or gone, or the interpreter is: so is the mapping
        with contextlib.suppress(Exception):
            _ask("cuCtxSynchronize")
            if self._mapped:
                _ask("cuMemUnmap", _number(self.address), _size(self._mapped))
            if self.address:
                _ask("cuMemAddressFree", _number(self.address), _size(self.nbytes))


def mapped(handles: Sequence[tuple[int, int]], *, writable: bool) -> Any:
    """A tensor of bytes over allocations (handle, bytes) one behind the other. The memory stays as
    long as a tensor lies there, also when the handles were released."""
    import torch

    return torch.as_tensor(_DeviceMapping(handles, writable=writable), device="cuda")


def imported(fd: int) -> int:
    """The allocation behind a descriptor."""
    handle = _number()
    _ask("cuMemImportFromShareableHandle", ctypes.byref(handle), _pointer(fd), _DESCRIPTOR)
    return handle.value


def release(handle: int) -> None:
    """Let go of an allocation: it is freed once nobody holds or maps it."""
    with contextlib.suppress(Exception):  # the context is gone, or the interpreter
        _ask("cuMemRelease", _number(handle))


def opened(fd: int, nbytes: int, *, writable: bool) -> Any:
    """A tensor over what another process has created, of exactly so many bytes."""
    handle = imported(fd)
    try:
        return mapped([(handle, nbytes)], writable=writable)
    finally:
        release(handle)


class DeviceRegion:
    """New memory, of so many bytes or a few more, that others may be shown. bytes: a tensor over
    all of it."""

    def __init__(self, nbytes: int) -> None:
        granularity, properties, handle = (
            _size(),
            _Properties(_PINNED, _DESCRIPTOR, _Location(_DEVICE, 0)),
            _number(),
        )
        _ask(
            "cuMemGetAllocationGranularity", ctypes.byref(granularity), ctypes.byref(properties), 0
        )
        self.nbytes = max(1, -(-nbytes // granularity.value)) * granularity.value
        _ask(
            "cuMemCreate",
            ctypes.byref(handle),
            _size(self.nbytes),
            ctypes.byref(properties),
            _number(0),
        )
        self._handle = handle.value
        self.bytes = mapped([(self._handle, self.nbytes)], writable=True)

    def export(self) -> int:
        """A descriptor; the caller closes it."""
        return _exported(self._handle)

    def __del__(self) -> None:
        if handle := getattr(self, "_handle", 0):
            release(handle)


def _exported(handle: int) -> int:
    fd = ctypes.c_int()
    _ask("cuMemExportToShareableHandle", ctypes.byref(fd), _number(handle), _DESCRIPTOR, _number(0))
    return fd.value


@dataclass(frozen=True)
class DevicePage:
    """One allocation in which some bytes of this process lie. handle: says which it is as long as
    it is mapped."""

    address: int
    nbytes: int
    handle: int


def page(address: int) -> DevicePage | None:
    """The allocation at an address; None where memory of another kind lies there."""
    start = end = address - address % STEP
    handle = _handle(start)
    if not handle:
        return None
    while _handle(start - STEP) == handle:
        start -= STEP
    while _handle(end + STEP) == handle:
        end += STEP
    return DevicePage(start, end + STEP - start, handle)


def is_still(page: DevicePage) -> bool:
    """Whether the same allocation lies there."""
    return _handle(page.address) == page.handle


def shown(page: DevicePage) -> int | None:
    """A descriptor of an allocation that another process may map; the caller closes it. None where
    it was not made to be handed over. The allocation is kept for good: no other one will have its
    handle."""
    handle = _number()
    try:
        _ask("cuMemRetainAllocationHandle", ctypes.byref(handle), _pointer(page.address))
        return _exported(handle.value)
    except DeviceMemoryError:
        return None


def _handle(address: int) -> int:
    """Of the allocation at an address, 0 without one."""
    handle = _number()
    try:
        _ask("cuMemRetainAllocationHandle", ctypes.byref(handle), _pointer(address))
    except DeviceMemoryError:
        return 0
    release(handle.value)
    return handle.value


# A kernel of one thread that ends when a word (of which it gets the address) is at least a value,
# modulo 2^32, or after two minutes. In PTX, which the driver itself compiles.
_HOLD = b"""
.version 7.0
.target sm_70
.address_size 64
.visible .entry hold(.param .u64 word, .param .u32 value)
{
  .reg .pred %reached, %late;
  .reg .s32 %now, %wanted, %left;
  .reg .u64 %address, %begin, %time;
  ld.param.u64 %address, [word];
  ld.param.s32 %wanted, [value];
  mov.u64 %begin, %globaltimer;
again:
  ld.volatile.global.s32 %now, [%address];
  sub.s32 %left, %now, %wanted;
  setp.ge.s32 %reached, %left, 0;
  @%reached bra over;
  mov.u64 %time, %globaltimer;
  sub.u64 %time, %time, %begin;
  setp.gt.u64 %late, %time, 120000000000;
  @%late bra over;
  bra again;
over:
  ret;
}
"""


@cache
def _hold() -> Any:
    module, function = _pointer(), _pointer()
    _ask("cuModuleLoadData", ctypes.byref(module), _HOLD)
    _ask("cuModuleGetFunction", ctypes.byref(function), module, b"hold")
    return function


class SharedWords:
    """A page of host memory that two processes and their streams see."""

    def __init__(self, fd: int) -> None:
        self._memory = mmap.mmap(fd, WORDS_BYTES)
        self._words = (ctypes.c_uint32 * 16).from_buffer(self._memory)
        address = ctypes.addressof(self._words)
        _ask("cuMemHostRegister_v2", _pointer(address), _size(WORDS_BYTES), 3)  # portable, mapped
        there = _number()
        _ask("cuMemHostGetDevicePointer_v2", ctypes.byref(there), _pointer(address), 0)
        self._there = there.value

    @staticmethod
    def file() -> int:
        """A descriptor of such a page."""
        fd = memory_files.create("words", WORDS_BYTES)
        memory_files.seal(fd, writable=True)
        return fd

    def __getitem__(self, word: int) -> int:
        return self._words[word]

    def __setitem__(self, word: int, value: int) -> None:
        self._words[word] = value

    def hold_on(self, stream: int, word: int, value: int) -> None:
        """As `await_on`, by a kernel that looks at the word: other streams that wait for this one
        are as they would be behind any work (behind a wait of the driver's they begin up to 2 ms
        late on an H200)."""
        there, wanted = _number(self._there + 4 * word), ctypes.c_uint32(value)
        arguments = (_pointer * 2)(ctypes.addressof(there), ctypes.addressof(wanted))
        _ask("cuLaunchKernel", _hold(), 1, 1, 1, 1, 1, 1, 0, _pointer(stream), arguments, None)

    def await_on(self, stream: int, word: int, value: int) -> None:
        """What is put into the stream from here on waits until the word is at least that (modulo
        2^32)."""
        _ask(
            "cuStreamWaitValue32_v2",
            _pointer(stream),
            _number(self._there + 4 * word),
            ctypes.c_uint32(value),
            0,
        )

    def write_on(self, stream: int, word: int, value: int) -> None:
        """Set the word once everything before it in the stream is done."""
        _ask(
            "cuStreamWriteValue32_v2",
            _pointer(stream),
            _number(self._there + 4 * word),
            ctypes.c_uint32(value),
            0,
        )

    def close(self) -> None:
        """No stream uses it any more."""
        with contextlib.suppress(DeviceMemoryError):
            _ask("cuMemHostUnregister", _pointer(ctypes.addressof(self._words)))
