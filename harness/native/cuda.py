"""CUDA C++: compiled for the current device, with its kernels by name."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from .building import BuildOrder, BuiltFile, NativeError, SourceRefused, build, build_once, macros
from .kernels import KernelText, read_kernels, split_instance
from .launching import Kernel, Module
from .prototypes import Prototype, signature
from .toolkit import MISSING, architecture_of, compile_order, find_toolkit

_COMPILE_SECONDS = 300.0


def load_cuda(
    source: str,
    flags: Sequence[str] = (),
    defines: Mapping[str, object] | None = None,
    signatures: Mapping[str, str] | None = None,
) -> CudaLibrary:
    """Compile CUDA C++ for the current device. Its `__global__` functions become attributes, which
    are launched by

        library.scale[grid, block, shared_bytes](x, y, n)
        library["scale<float, 4>"][grid, block](x, y, n)  # an instance of a template

    grid and block: an int or a tuple of up to three; shared memory is optional.
    flags: appended to -std=c++17, for example "--use_fast_math" or "--maxrregcount=64". defines:
    name -> value, passed as -Dname=value. signatures: name -> one letter per argument, for kernels
    whose arguments cannot be read: p pointer, l int64, i int32, s int16, c int8, b bool, f float, d
    double, h half. Raises NativeError with the compiler's output.
    """
    import torch

    if not torch.cuda.is_available():
        raise NativeError(
            "load_cuda needs an NVIDIA GPU, and torch finds none (torch.cuda.is_available() is "
            "False)"
        )
    architecture = architecture_of(torch.cuda.get_device_capability())
    order = BuildOrder("cuda", source, macros(flags, defines), architecture)
    return CudaLibrary(
        order, {name: signature(name, letters) for name, letters in (signatures or {}).items()}
    )


def build_here(order: BuildOrder) -> BuiltFile:
    """Compile with this machine's CUDA compiler into the user's cache."""
    toolkit = find_toolkit()
    if not toolkit.version:
        raise NativeError(MISSING)

    def make(target: Path) -> dict[str, str]:
        with tempfile.TemporaryDirectory() as folder:
            try:
                build = compile_order(order, toolkit, folder, _COMPILE_SECONDS)
            except SourceRefused as error:
                raise NativeError(f"the CUDA compiler refused the source:\n{error}") from error
            except TimeoutError as error:
                raise NativeError(str(error)) from error
        target.write_bytes(build.image)
        return build.symbols

    return build_once(order, toolkit.version, ".cubin", make)


class CudaLibrary:
    """The kernels of one source. Functions are compiled at once, an instance of a template at its
    first use. Each instance is a separate binary with its own `__device__` variables."""

    def __init__(self, order: BuildOrder, signatures: Mapping[str, Prototype]) -> None:
        self._order, self._signatures = order, signatures
        self._texts = read_kernels(order.source)
        self._kernels: dict[str, Kernel] = {}
        functions = tuple(name for name, text in self._texts.items() if text.parameters is None)
        if functions:
            self._add(functions)

    def __getitem__(self, name: str) -> Kernel:
        if name not in self._kernels:
            self._check(name)
            self._add((name,))
        return self._kernels[name]

    def __getattr__(self, name: str) -> Kernel:
        if name.startswith("_"):
            raise AttributeError(name)
        kernel = self[name]
        self.__dict__[name] = kernel  # the next access skips this look-up
        return kernel

    def _check(self, name: str) -> None:
        base, values = split_instance(name)
        text = self._texts.get(base)
        if text is None and base not in self._signatures:
            names = ", ".join(self._texts) or "none"
            raise NativeError(
                f"no __global__ function {base!r} can be read in the source (found: {names}); "
                f'declare it without macros, or pass signatures={{"{base}": "pplf"}}'
            )
        if text is not None and text.parameters is not None and not values:
            listed = ", ".join(text.parameters)
            raise NativeError(
                f'{base!r} is a template: name an instance, library["{base}<{listed}>"] with '
                f"values for {listed}"
            )

    def _add(self, names: tuple[str, ...]) -> None:
        order = BuildOrder(
            "cuda", self._order.source, self._order.flags, self._order.architecture, names
        )
        built = build(order, build_here)
        with open(built.path, "rb") as file:
            module = Module(file.read(), built.identity)
        for name in names:
            prototype = self._prototype(name)
            self._kernels[name] = Kernel(name, built.symbols[name], module, prototype)

    def _prototype(self, name: str) -> Prototype | None:
        base, values = split_instance(name)
        text: KernelText | None = self._texts.get(base)
        return (
            self._signatures.get(name)
            or self._signatures.get(base)
            or (text.prototype(values) if text else None)
        )
