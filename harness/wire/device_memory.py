"""Memory of a CUDA device that two processes share.

The owner of a region allocates it with `cuMemCreate` and passes it on as a file descriptor; another
process maps it, read-only if it must not write (CUDA driver API, "Virtual Memory Management").
Nothing is copied through host memory. Torch's own allocations can be shared in the same way where
its allocator uses the same calls (see `share_allocations`).
"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

# of cuda.h: CUmemAllocationType, CUmemAllocationHandleType, …
_PINNED, _DESCRIPTOR, _DEVICE, _READ, _READ_WRITE = 1, 1, 1, 1, 3
STEP = 2 << 20  # bytes: allocations of this kind start and end at multiples of it
Number, Size, Pointer = ctypes.c_ulonglong, ctypes.c_size_t, ctypes.c_void_p


class DeviceMemoryError(Exception):
    """The driver refused a call (the message is the driver's), or memory is not of the device."""


class _Location(ctypes.Structure):
    _fields_ = (("type", ctypes.c_int), ("id", ctypes.c_int))


class _Properties(ctypes.Structure):
    _fields_ = (
        ("type", ctypes.c_int),
        ("handles", ctypes.c_int),
        ("location", _Location),
        ("windows", Pointer),
        ("flags", ctypes.c_ubyte * 8),
    )


class _Access(ctypes.Structure):
    _fields_ = (("location", _Location), ("flags", ctypes.c_int))


@cache
def _driver() -> Any:
    """Load libcuda with torch's context current. Raises DeviceMemoryError."""
    import torch

    torch.zeros(1, device="cuda")
    try:
        return ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        raise DeviceMemoryError(f"there is no NVIDIA driver here: {error}") from error


def call_driver(function: str, *arguments: Any) -> None:
    """Call a function of the driver. Raises DeviceMemoryError."""
    driver = _driver()
    try:
        code = getattr(driver, function)(*arguments)
    except AttributeError as error:
        raise DeviceMemoryError(f"this driver has no {function}") from error
    if code:
        text = ctypes.c_char_p()
        driver.cuGetErrorString(code, ctypes.byref(text))
        raise DeviceMemoryError(f"{function}: {(text.value or b'').decode() or code}")


def share_allocations() -> None:
    """Let torch allocate memory that can be shared. Call it before torch's first allocation."""
    import torch

    # a torch without this setting: its allocations are copied instead
    with contextlib.suppress(Exception):
        torch.cuda.memory._set_allocator_settings("expandable_segments:True")


class _DeviceMapping:
    """Allocations (handle, bytes) mapped one after another into this process, and unmapped when
    nothing refers to this object any more. Torch's tensors over the memory keep such a
    reference."""

    def __init__(self, handles: Sequence[tuple[int, int]], *, writable: bool) -> None:
        self.nbytes, self.address, self._mapped = sum(size for _, size in handles), 0, 0
        address = Number()
        call_driver(
            "cuMemAddressReserve",
            ctypes.byref(address),
            Size(self.nbytes),
            Size(0),
            Number(0),
            Number(0),
        )
        self.address = address.value
        for handle, size in handles:
            call_driver(
                "cuMemMap",
                Number(self.address + self._mapped),
                Size(size),
                Size(0),
                Number(handle),
                Number(0),
            )
            self._mapped += size
        access = _Access(_Location(_DEVICE, 0), _READ_WRITE if writable else _READ)
        call_driver("cuMemSetAccess", address, Size(self.nbytes), ctypes.byref(access), Size(1))

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {
            "data": (self.address, False),
            "shape": (self.nbytes,),
            "typestr": "|u1",
            "version": 3,
        }

    def __del__(self) -> None:
        if _later:
            _later[-1].append((self.address, self._mapped, self.nbytes))
        else:
            _unmap(self.address, self._mapped, self.nbytes)


# within contexts of unmapping_later, what to unmap
_later: list[list[tuple[int, int, int]]] = []


@contextlib.contextmanager
def unmapping_later() -> Iterator[None]:
    """Unmap memory that nothing needs any more only when the context ends, since that waits for all
    of this process's work on the device."""
    _later.append([])
    try:
        yield
    finally:
        for address, mapped, reserved in _later.pop():
            _unmap(address, mapped, reserved)


def _unmap(address: int, mapped: int, reserved: int) -> None:
    """Unmap `mapped` bytes and release the addresses of `reserved` bytes."""
    # the context is broken or gone, or the interpreter shuts down: the mapping is gone too
    with contextlib.suppress(Exception):
        call_driver("cuCtxSynchronize")
        if mapped:
            call_driver("cuMemUnmap", Number(address), Size(mapped))
        if address:
            call_driver("cuMemAddressFree", Number(address), Size(reserved))


def map_allocations(handles: Sequence[tuple[int, int]], *, writable: bool) -> Any:
    """Return a tensor of bytes over allocations (handle, bytes) mapped one after another. The
    memory lives as long as a tensor over it, even after the handles are released."""
    import torch

    return torch.as_tensor(_DeviceMapping(handles, writable=writable), device="cuda")


def import_allocation(fd: int) -> int:
    """Return the handle of the allocation behind a descriptor. Raises DeviceMemoryError, also where
    it is memory of the host."""
    handle, properties = Number(), _Properties()
    call_driver("cuMemImportFromShareableHandle", ctypes.byref(handle), Pointer(fd), _DESCRIPTOR)
    try:
        call_driver(
            "cuMemGetAllocationPropertiesFromHandle", ctypes.byref(properties), Number(handle.value)
        )
        if properties.location.type != _DEVICE:
            raise DeviceMemoryError("it lies on the host")
    except DeviceMemoryError:
        release(handle.value)
        raise
    return handle.value


def release(handle: int) -> None:
    """Release a handle: its allocation is freed once no process holds or maps it."""
    with contextlib.suppress(Exception):  # the context is gone, or the interpreter shuts down
        call_driver("cuMemRelease", Number(handle))


def map_descriptor(fd: int, nbytes: int, *, writable: bool) -> Any:
    """Return a tensor over an allocation of another process, of exactly `nbytes` bytes."""
    handle = import_allocation(fd)
    try:
        return map_allocations([(handle, nbytes)], writable=writable)
    finally:
        release(handle)


class DeviceRegion:
    """New device memory that can be shared, of `nbytes` rounded up to the driver's granularity.
    bytes: a tensor over all of it."""

    def __init__(self, nbytes: int) -> None:
        granularity, properties, handle = (
            Size(),
            _Properties(_PINNED, _DESCRIPTOR, _Location(_DEVICE, 0)),
            Number(),
        )
        call_driver(
            "cuMemGetAllocationGranularity", ctypes.byref(granularity), ctypes.byref(properties), 0
        )
        self.nbytes = max(1, -(-nbytes // granularity.value)) * granularity.value
        call_driver(
            "cuMemCreate",
            ctypes.byref(handle),
            Size(self.nbytes),
            ctypes.byref(properties),
            Number(0),
        )
        self._handle = handle.value
        self.bytes = map_allocations([(self._handle, self.nbytes)], writable=True)

    def export(self) -> int:
        """Return a descriptor of the memory; the caller closes it."""
        return _export_handle(self._handle)

    def __del__(self) -> None:
        if handle := getattr(self, "_handle", 0):
            release(handle)


def _export_handle(handle: int) -> int:
    fd = ctypes.c_int()
    call_driver(
        "cuMemExportToShareableHandle", ctypes.byref(fd), Number(handle), _DESCRIPTOR, Number(0)
    )
    return fd.value


@dataclass(frozen=True)
class DevicePage:
    """One allocation in this process's addresses. handle: identifies it as long as it is mapped."""

    address: int
    nbytes: int
    handle: int


def page(address: int) -> DevicePage | None:
    """Return the allocation at an address; None where the memory is of another kind."""
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
    """Return whether the same allocation is still mapped at this address."""
    return _handle(page.address) == page.handle


def export(page: DevicePage) -> int | None:
    """Return a descriptor by which another process can map an allocation; the caller closes it.
    None where the allocation was not made to be shared. The handle is never released, so that no
    other allocation can get the same one."""
    handle = Number()
    try:
        call_driver("cuMemRetainAllocationHandle", ctypes.byref(handle), Pointer(page.address))
        return _export_handle(handle.value)
    except DeviceMemoryError:
        return None


def _handle(address: int) -> int:
    """Return the handle of the allocation at an address, 0 without one."""
    handle = Number()
    try:
        call_driver("cuMemRetainAllocationHandle", ctypes.byref(handle), Pointer(address))
    except DeviceMemoryError:
        return 0
    release(handle.value)
    return handle.value
