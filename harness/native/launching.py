"""Launches a kernel of a binary: sizes, arguments, device and stream."""

from __future__ import annotations

import operator
import struct
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from .building import NativeError
from .driver import CudaDriver, Triple
from .kernels import CUDA_POINTED
from .prototypes import SPELLED, Prototype

_FREE_SHARED = 48 << 10  # bytes of dynamic shared memory that need no permission
# format characters of the module struct
_LAYOUT = {"p": "P", "l": "q", "i": "i", "s": "h", "c": "b", "b": "?", "f": "f", "d": "d", "h": "e"}
_KEPT_SIZES = 256  # launch sizes that a kernel remembers


@dataclass(frozen=True)
class Launch:
    """One launch as the host requested it. image: identity of the binary. symbol: the kernel's in
    the binary. shared: bytes of dynamic shared memory."""

    name: str
    image: str
    symbol: str
    grid: Triple
    block: Triple
    shared: int
    signature: tuple[str, ...]


Observer = Callable[[Launch], bool]
_observer: Observer | None = None
_driver: CudaDriver | None = None


def observe_launches(observer: Observer | None) -> None:
    """Report every launch to `observer` first; the launch takes place only if it returns True.
    Called by the evaluator."""
    global _observer
    _observer = observer


def use_driver(driver: CudaDriver | None) -> None:
    """Replace the machine's driver (None: use it again)."""
    global _driver
    _driver = driver


class Module:
    """A binary that is loaded into each device at its first launch on it."""

    def __init__(self, image: bytes, identity: str) -> None:
        self._image, self.identity = image, identity
        self._loaded: dict[int, int] = {}

    def function(self, device: int, symbol: str) -> int:
        if device not in self._loaded:
            self._loaded[device] = _the_driver().load(device, self._image)
        return _the_driver().function(self._loaded[device], symbol)


class Kernel:
    """One kernel: `kernel[grid, block, shared_bytes](arguments)`. Tensors become pointers after a
    check of device, layout and dtype; numbers must fit their C type."""

    def __init__(self, name: str, symbol: str, module: Module, prototype: Prototype | None) -> None:
        self.name, self.symbol, self.module, self.prototype = name, symbol, module, prototype
        self._sizes: dict[Any, Sized] = {}
        self._functions: dict[int, int] = {}
        self._allowed: dict[int, int] = {}
        if prototype is not None:
            letters = [letter for letter, _ in prototype.arguments]
            self._packer = struct.Struct("".join(_LAYOUT[letter] for letter in letters))
            self.offsets = tuple(
                struct.calcsize("".join(_LAYOUT[a] for a in letters[: i + 1]))
                - struct.calcsize(_LAYOUT[letter])
                for i, letter in enumerate(letters)
            )
            self._dtypes = [
                frozenset(f"torch.{d}" for d in CUDA_POINTED.get(pointed, ()))
                if letter == "p"
                else None
                for letter, pointed in prototype.arguments
            ]
        # (argument, dtype) pairs already accepted: avoids comparing names again
        self._seen: set[tuple[int, Any]] = set()

    def __getitem__(self, sizes: Any) -> Sized:
        launcher = self._sizes.get(sizes)
        if launcher is None:
            if len(self._sizes) >= _KEPT_SIZES:
                self._sizes.clear()
            launcher = self._sizes[sizes] = Sized(self, *_sizes(self.name, sizes))
        return launcher

    def __call__(self, *arguments: Any) -> None:
        raise NativeError(
            f"{self.name}: give the numbers of blocks and threads: "
            f"library.{self.name}[grid, block](...)"
        )

    def function(self, device: int, shared: int) -> int:
        """Return the driver's handle, prepared for a launch with `shared` bytes of dynamic shared
        memory."""
        if device not in self._functions:
            self._functions[device] = self.module.function(device, self.symbol)
        if shared > self._allowed.get(device, _FREE_SHARED):
            _the_driver().allow_shared(self._functions[device], shared)
            self._allowed[device] = shared
        return self._functions[device]

    def pack(self, arguments: tuple[Any, ...], device: int) -> bytes:
        """Lay the arguments out as in a C structure. Raises NativeError."""
        if self.prototype is None:
            raise NativeError(
                f"the arguments of {self.name} cannot be read from the source; pass "
                f"signatures={{{self.name!r}: ...}} with a letter for each: p pointer, l int64, i "
                "int32, s int16, c int8, b bool, f float, d double, h half"
            )
        if len(arguments) != len(self._dtypes):
            raise NativeError(
                f"{self.prototype} takes {len(self._dtypes)} arguments, got {len(arguments)}"
            )
        values = [
            self._pointer(i, a, accepted, device) if accepted is not None else a
            for i, (a, accepted) in enumerate(zip(arguments, self._dtypes, strict=True))
        ]
        try:
            return self._packer.pack(*values)
        # an argument does not fit: an unsigned number, or a mistake
        except (struct.error, OverflowError, TypeError):
            letters = (letter for letter, _ in self.prototype.arguments)
            return self._packer.pack(
                *(
                    self._fit(i, letter, v)
                    for i, (letter, v) in enumerate(zip(letters, values, strict=True))
                )
            )

    def _fit(self, index: int, letter: str, value: Any) -> Any:
        """Return the value as the C type holds it: unsigned numbers by their bits. Raises
        NativeError."""
        try:
            if letter in "plisc":
                value, bits = operator.index(value), 8 * struct.calcsize(_LAYOUT[letter])
                value -= (
                    (1 << bits) if letter != "p" and 1 << (bits - 1) <= value < 1 << bits else 0
                )
            struct.pack(_LAYOUT[letter], value)
        except (struct.error, OverflowError, TypeError) as error:
            raise self._refusal(
                index, f"{value!r} is not a valid {SPELLED[letter]}; the kernel is {self.prototype}"
            ) from error
        return value

    def _pointer(self, index: int, value: Any, accepted: frozenset[str], device: int) -> int:
        if not hasattr(value, "data_ptr"):
            if value is None or isinstance(value, int):
                return value or 0
            raise self._refusal(
                index, f"a pointer takes a tensor, an address or None, got {type(value).__name__}"
            )
        if (index, value.dtype) not in self._seen:
            if accepted and str(value.dtype) not in accepted:
                raise self._refusal(
                    index, f"got {value.dtype}, the kernel takes {' or '.join(sorted(accepted))}"
                )
            self._seen.add((index, value.dtype))
        where = value.get_device()
        if where != device:
            fix = (
                "move it there" if where < 0 else "launch under `with torch.cuda.device(x.device)`"
            )
            raise self._refusal(
                index, f"the tensor is on {value.device}, the kernel runs on cuda:{device}; {fix}"
            )
        if not value.is_contiguous():
            raise self._refusal(
                index,
                "the tensor is not contiguous; call .contiguous(), or pass .data_ptr() and the "
                "strides",
            )
        pointer: int = value.data_ptr()
        return pointer

    def _refusal(self, index: int, reason: str) -> NativeError:
        return NativeError(f"{self.name}, argument {index + 1}: {reason}")


class Sized:
    """A kernel with its launch sizes: call it with the arguments."""

    def __init__(self, kernel: Kernel, grid: Triple, block: Triple, shared: int) -> None:
        self._kernel, self._grid, self._block, self._shared = kernel, grid, block, shared

    def __call__(self, *arguments: Any) -> None:
        """Launch on torch's current stream; returns at once. Raises NativeError."""
        import torch

        kernel, device = self._kernel, torch.cuda.current_device()
        packed = kernel.pack(arguments, device)
        if _observer is not None and not _observer(self._description()):
            return
        function = kernel.function(device, self._shared)
        _the_driver().launch(
            device,
            function,
            self._grid,
            self._block,
            self._shared,
            _stream(device),
            packed,
            kernel.offsets,
        )

    def _description(self) -> Launch:
        kernel = self._kernel
        assert kernel.prototype is not None
        spellings = tuple(
            pointed + "*" if letter == "p" else SPELLED[letter]
            for letter, pointed in kernel.prototype.arguments
        )
        return Launch(
            kernel.name,
            kernel.module.identity,
            kernel.symbol,
            self._grid,
            self._block,
            self._shared,
            spellings,
        )


def _sizes(name: str, sizes: Any) -> tuple[Triple, Triple, int]:
    """Return grid, block and shared bytes from the launch sizes in brackets. Raises NativeError."""
    if not isinstance(sizes, tuple) or len(sizes) not in (2, 3):
        raise NativeError(
            f"{name}: launch sizes are [grid, block] or [grid, block, shared_bytes], got "
            f"[{sizes!r}]"
        )
    grid, block = _triple(name, "grid", sizes[0]), _triple(name, "block", sizes[1])
    threads = block[0] * block[1] * block[2]
    if threads > 1024:
        raise NativeError(
            f"{name}: a block has at most 1024 threads, got {' x '.join(map(str, block))} = "
            f"{threads}"
        )
    if grid[0] >= 1 << 31 or max(grid[1:]) >= 1 << 16:
        raise NativeError(
            f"{name}: a grid has at most 2147483647 x 65535 x 65535 blocks, got "
            f"{' x '.join(map(str, grid))}"
        )
    shared = sizes[2] if len(sizes) == 3 else 0
    if not isinstance(shared, int) or shared < 0:
        raise NativeError(f"{name}: shared_bytes is a number of bytes, got {shared!r}")
    return grid, block, shared


def _triple(name: str, what: str, value: Any) -> Triple:
    sizes = tuple(value) if isinstance(value, (tuple, list)) else (value,)
    if not 1 <= len(sizes) <= 3 or not all(
        isinstance(s, int) and not isinstance(s, bool) and s > 0 for s in sizes
    ):
        raise NativeError(
            f"{name}: {what} is a positive int or up to three of them, got {value!r} (do not "
            "launch if there is nothing to do)"
        )
    padded = (*sizes, 1, 1)
    return padded[0], padded[1], padded[2]


def _the_driver() -> CudaDriver:
    return _driver or _own_driver()


@lru_cache(maxsize=1)
def _own_driver() -> CudaDriver:
    return CudaDriver()


def _stream(device: int) -> int:
    """Return torch's current stream, by the fast internal call of torch's own compiler if it
    exists."""
    import torch

    short = getattr(torch._C, "_cuda_getCurrentRawStream", None)
    return int(short(device)) if short is not None else int(torch.cuda.current_stream().cuda_stream)
