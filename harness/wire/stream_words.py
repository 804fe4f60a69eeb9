"""Words in memory that a stream of a CUDA device waits for: a page of host memory shared by two
processes and their streams (CUDA driver API, "Stream Memory Operations")."""

from __future__ import annotations

import contextlib
import ctypes
import mmap
from functools import cache
from typing import Any

from . import memory_files
from .device_memory import DeviceMemoryError, Number, Pointer, Size, call_driver

WORDS_BYTES = 4096
GO, DONE = 0, 1  # indices of the judge's word and of the worker's

# A kernel of one thread that ends when the word at its address argument is at least a value, modulo
# 2^32, or after two minutes. In PTX, which the driver itself compiles.
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
    module, function = Pointer(), Pointer()
    call_driver("cuModuleLoadData", ctypes.byref(module), _HOLD)
    call_driver("cuModuleGetFunction", ctypes.byref(function), module, b"hold")
    return function


class SharedWords:
    """A page of host memory shared by two processes and their streams."""

    def __init__(self, fd: int) -> None:
        self._memory = mmap.mmap(fd, WORDS_BYTES)
        self._words = (ctypes.c_uint32 * 16).from_buffer(self._memory)
        address = ctypes.addressof(self._words)
        call_driver(
            "cuMemHostRegister_v2", Pointer(address), Size(WORDS_BYTES), 3
        )  # portable, mapped
        device_address = Number()
        call_driver(
            "cuMemHostGetDevicePointer_v2", ctypes.byref(device_address), Pointer(address), 0
        )
        self._device_address = device_address.value

    @staticmethod
    def file() -> int:
        """Create such a page and return its descriptor."""
        fd = memory_files.create("words", WORDS_BYTES)
        memory_files.seal(fd, writable=True)
        return fd

    def __getitem__(self, word: int) -> int:
        return self._words[word]

    def __setitem__(self, word: int, value: int) -> None:
        self._words[word] = value

    def address(self, word: int) -> int:
        """Return the address of a word for kernels."""
        return self._device_address + 4 * word

    def hold_on(self, stream: int, word: int, value: int) -> None:
        """Wait as `await_on` does, but by a kernel that polls the word: behind `await_on`, a kernel
        that ends at once."""
        device_word, least = Number(self.address(word)), ctypes.c_uint32(value)
        arguments = (Pointer * 2)(ctypes.addressof(device_word), ctypes.addressof(least))
        call_driver(
            "cuLaunchKernel", _hold(), 1, 1, 1, 1, 1, 1, 0, Pointer(stream), arguments, None
        )

    def await_on(self, stream: int, word: int, value: int) -> None:
        """Let later work of the stream wait until the word is at least `value` (modulo 2^32)."""
        call_driver(
            "cuStreamWaitValue32_v2",
            Pointer(stream),
            Number(self.address(word)),
            ctypes.c_uint32(value),
            0,
        )

    def write_on(self, stream: int, word: int, value: int) -> None:
        """Set the word once all earlier work in the stream is done."""
        call_driver(
            "cuStreamWriteValue32_v2",
            Pointer(stream),
            Number(self.address(word)),
            ctypes.c_uint32(value),
            0,
        )

    def close(self) -> None:
        """Unregister the page, once no stream uses it any more."""
        with contextlib.suppress(DeviceMemoryError):
            call_driver("cuMemHostUnregister", Pointer(ctypes.addressof(self._words)))
