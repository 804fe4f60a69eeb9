"""Native code held as text, compiled and called: the only package that candidates import and
exports copy.

    lib = load_cpp(SOURCE, flags=("-ffast-math",), defines={"UNROLL": 4})      # C++ for the CPU
    lib.rmsnorm(x, weight, y, rows, cols, eps)

    # CUDA C++ for the current device
    lib = load_cuda(SOURCE, defines={"BLOCK": 256})
    lib.rmsnorm[rows, 256](x, weight, y, cols, eps)

Inside an evaluation the source goes to the judge's confined build service; anywhere else the
machine's own compiler builds it into a cache folder of the user.
"""

from __future__ import annotations

from . import cpp as _cpp
from . import cuda as _cuda
from .building import BuildOrder, BuiltFile, NativeError, use_builder
from .cpp import DEFAULT_FLAGS, CppLibrary, Function, compile_command, find_compiler, load_cpp
from .cuda import CudaLibrary, load_cuda
from .driver import CudaDriver
from .kernels import KernelText, read_kernels
from .launching import Kernel, Launch, Sized, observe_launches, use_driver
from .prototypes import Prototype, read_prototypes
from .toolkit import CUDA_FLAGS, MISSING, Toolkit, architecture_of, compile_order, find_toolkit

__all__ = [
    "CUDA_FLAGS",
    "DEFAULT_FLAGS",
    "MISSING",
    "BuildOrder",
    "BuiltFile",
    "CppLibrary",
    "CudaDriver",
    "CudaLibrary",
    "Function",
    "Kernel",
    "KernelText",
    "Launch",
    "NativeError",
    "Prototype",
    "Sized",
    "Toolkit",
    "architecture_of",
    "build_here",
    "compile_command",
    "compile_order",
    "find_compiler",
    "find_toolkit",
    "load_cpp",
    "load_cuda",
    "observe_launches",
    "read_kernels",
    "read_prototypes",
    "use_builder",
    "use_driver",
]  # fmt: skip


_BUILDERS = {"cpp": _cpp.build_here, "cuda": _cuda.build_here}


def build_here(order: BuildOrder) -> BuiltFile:
    """Compile with this machine's compilers into the user's cache. Raises NativeError."""
    return _BUILDERS[order.language](order)
