"""Words in memory that a stream of a CUDA device waits for: a page of host memory shared by two
processes and their streams (CUDA driver API, "Stream Memory Operations")."""

from __future__ import annotations

import contextlib
import ctypes
import mmap

from . import memory_files
from .device_memory import DeviceMemoryError, Number, Pointer, Size, call_driver

WORDS_BYTES = 4096
GO, DONE = 0, 1  # indices of the judge's word and of the worker's


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
