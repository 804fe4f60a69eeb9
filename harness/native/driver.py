"""The CUDA driver through ctypes (CUDA Driver API: "Module Management", "Execution Control",
"Primary Context Management").

It works in the device's primary context, as torch does, so that both share pointers and streams.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

from .building import NativeError

_MAX_DYNAMIC_SHARED = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
_INVALID_CONTEXT = 201
_ADVICE = {
    1: "are the sizes of grid, block and shared memory within what the device offers?",
    200: "the binary was not made by a CUDA compiler",
    209: "the binary is for a different architecture than the device's",
    218: "the driver is older than the compiler",
    500: "the binary has no kernel of this name",
    700: "an earlier kernel read or wrote outside its tensors",
    701: (
        "a block needs more registers or shared memory than the device has: use fewer threads, or "
        "__launch_bounds__"
    ),
}
Triple = tuple[int, int, int]


class CudaDriver:
    """The driver's calls. library: libcuda. Every method raises NativeError with the driver's
    message."""

    def __init__(self, library: str = "libcuda.so.1") -> None:
        try:
            self._cuda: Any = ctypes.CDLL(library)
        except OSError as error:
            raise NativeError(f"there is no NVIDIA driver here: {error}") from error
        pointer, number = ctypes.c_void_p, ctypes.c_uint
        self._cuda.cuLaunchKernel.argtypes = [pointer, *([number] * 7), pointer, pointer, pointer]
        self._cuda.cuCtxSetCurrent.argtypes = [pointer]
        self._cuda.cuModuleLoadData.argtypes = [pointer, ctypes.c_char_p]
        self._cuda.cuModuleGetFunction.argtypes = [pointer, pointer, ctypes.c_char_p]
        self._cuda.cuFuncSetAttribute.argtypes = [pointer, ctypes.c_int, ctypes.c_int]
        self._contexts: dict[int, int] = {}
        self._check(self._cuda.cuInit(0), "starting the driver")

    def load(self, device: int, image: bytes) -> int:
        """Load a module into the context of a device."""
        self._enter(device)
        module = ctypes.c_void_p()
        self._check(self._cuda.cuModuleLoadData(ctypes.byref(module), image), "loading the binary")
        return module.value or 0

    def function(self, module: int, symbol: str) -> int:
        """Return the handle of a kernel in a module."""
        function = ctypes.c_void_p()
        self._check(
            self._cuda.cuModuleGetFunction(ctypes.byref(function), module, symbol.encode()),
            f"looking {symbol!r} up",
        )
        return function.value or 0

    def allow_shared(self, function: int, size: int) -> None:
        """Allow launches with up to `size` bytes of dynamic shared memory; the driver requires this
        above 48 KiB."""
        self._check(
            self._cuda.cuFuncSetAttribute(function, _MAX_DYNAMIC_SHARED, size),
            f"asking for {size} bytes of dynamic shared memory",
        )

    def launch(
        self,
        device: int,
        function: int,
        grid: Triple,
        block: Triple,
        shared: int,
        stream: int,
        packed: bytes,
        offsets: Sequence[int],
    ) -> None:
        """Launch a kernel. packed: the arguments, laid out as in a C structure. offsets: where each
        argument begins in it."""
        cells = ctypes.create_string_buffer(packed, len(packed))
        start = ctypes.addressof(cells)
        arguments = (ctypes.c_void_p * len(offsets))(*(start + o for o in offsets))
        code = self._cuda.cuLaunchKernel(function, *grid, *block, shared, stream, arguments, None)
        if code == _INVALID_CONTEXT:  # torch has not used the device in this thread yet
            self._enter(device)
            code = self._cuda.cuLaunchKernel(
                function, *grid, *block, shared, stream, arguments, None
            )
        self._check(code, "the launch")

    def _enter(self, device: int) -> None:
        if device not in self._contexts:
            handle, context = ctypes.c_int(), ctypes.c_void_p()
            self._check(
                self._cuda.cuDeviceGet(ctypes.byref(handle), device), f"finding device {device}"
            )
            self._check(
                self._cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), handle),
                "entering torch's context",
            )
            self._contexts[device] = context.value or 0
        self._check(self._cuda.cuCtxSetCurrent(self._contexts[device]), "entering torch's context")

    def _check(self, code: int, doing: str) -> None:
        if code == 0:
            return
        name, words = ctypes.c_char_p(), ctypes.c_char_p()
        self._cuda.cuGetErrorName(code, ctypes.byref(name))
        self._cuda.cuGetErrorString(code, ctypes.byref(words))
        reason = f"{(name.value or b'?').decode()} ({code}): {(words.value or b'unknown').decode()}"
        raise NativeError(
            f"{doing} failed: {reason}" + (f"; {_ADVICE[code]}" if code in _ADVICE else "")
        )
