"""The compilers of CUDA C++ on this machine: NVRTC in this process (a fraction of a second), and
nvcc, which is slower but also accepts host code."""

from __future__ import annotations

import glob
import os
import re
import shutil
import sys
from dataclasses import dataclass
from functools import lru_cache

from . import nvcc, nvrtc
from .building import BuildOrder, NativeError, SourceRefused

CUDA_FLAGS = ("-std=c++17",)
MISSING = (
    "there is no compiler for CUDA C++: neither NVRTC (pip install nvidia-cuda-nvrtc, or a torch "
    "with CUDA) nor nvcc was found"
)
_ONLY_NVCC = re.compile(r"not allowed in JIT mode|(?:cannot|could not) open source file")


@dataclass(frozen=True)
class Toolkit:
    """Paths of the compilers, "" for a missing one. includes: folders with CUDA's headers."""

    nvrtc: str = ""
    nvcc: str = ""
    includes: tuple[str, ...] = ()

    @property
    def version(self) -> str:
        """The compilers and their versions, for users and cache keys; "" without a compiler."""
        versions = [f"NVRTC {nvrtc.version(self.nvrtc)}"] if self.nvrtc else []
        return ", ".join([*versions, *([nvcc.version(self.nvcc)] if self.nvcc else [])])

    @property
    def folders(self) -> tuple[str, ...]:
        """The folders that a compiling process must be able to read."""
        programs = [
            os.path.dirname(os.path.dirname(os.path.realpath(p))) for p in (self.nvcc,) if p
        ]
        return tuple(
            dict.fromkeys(
                [*programs, *([os.path.dirname(self.nvrtc)] if self.nvrtc else []), *self.includes]
            )
        )


@dataclass(frozen=True)
class Compiled:
    """The result of a compilation. image: the device binary (cubin). symbols: by the names in the
    order. ptx: its text. log: includes the output of ptxas about each kernel."""

    image: bytes
    symbols: dict[str, str]
    ptx: str
    log: str


def compile_order(order: BuildOrder, toolkit: Toolkit, folder: str, seconds: float) -> Compiled:
    """Compile with NVRTC, or with nvcc where there is no NVRTC or the text contains host code.
    folder: for temporary files. seconds: the time limit of nvcc. Raises SourceRefused with the
    compiler's output, NativeError, TimeoutError."""
    if not toolkit.nvrtc and not toolkit.nvcc:
        raise NativeError(MISSING)
    flags = [f"-arch={order.architecture}", *CUDA_FLAGS, *order.flags]
    if toolkit.nvrtc:
        try:
            return Compiled(
                *nvrtc.build(
                    toolkit.nvrtc,
                    order.source,
                    [*flags, *(f"-I{i}" for i in toolkit.includes)],
                    order.names,
                )
            )
        except SourceRefused as error:
            if not toolkit.nvcc or not _ONLY_NVCC.search(str(error)):
                raise
    return Compiled(*nvcc.build(toolkit.nvcc, order.source, flags, order.names, folder, seconds))


@lru_cache(maxsize=1)
def find_toolkit() -> Toolkit:
    """Find the compilers of this interpreter and machine. KEVOLVE_NVRTC names another libnvrtc,
    CUDA_HOME another toolkit."""
    compiler = shutil.which("nvcc") or ""
    roots = [os.environ.get("CUDA_HOME", ""), os.environ.get("CUDA_PATH", ""), "/usr/local/cuda"]
    if not compiler:
        compiler = next(
            (p for r in roots if r and os.access(p := os.path.join(r, "bin", "nvcc"), os.X_OK)), ""
        )
    else:
        roots.append(os.path.dirname(os.path.dirname(os.path.realpath(compiler))))
    wheels = [path for base in sys.path for path in glob.glob(os.path.join(base, "nvidia", "*"))]
    torch = [os.path.join(base, "torch") for base in sys.path]
    libraries = [os.environ.get("KEVOLVE_NVRTC", "")]
    for root in [*wheels, *torch, *roots]:
        for inside in ("lib", "lib64", "targets/x86_64-linux/lib", "targets/sbsa-linux/lib"):
            libraries += (
                sorted(glob.glob(os.path.join(root, inside, "libnvrtc.so*"))) if root else []
            )
    bundled = [os.path.join(base, "triton", "backends", "nvidia") for base in sys.path]
    includes = [os.path.join(root, "include") for root in [*wheels, *roots, *bundled] if root]
    first = next((i for i in includes if os.path.isfile(os.path.join(i, "cuda_fp16.h"))), "")
    more = os.path.join(first, "cccl")
    return Toolkit(
        next(
            (
                os.path.realpath(p)
                for p in libraries
                if p and os.path.isfile(p) and nvrtc.version(os.path.realpath(p))
            ),
            "",
        ),
        compiler,
        tuple(os.path.realpath(i) for i in (first, more) if first and os.path.isdir(i)),
    )


def architecture_of(capability: tuple[int, int]) -> str:
    """Return the architecture of a compute capability: (9, 0) -> "sm_90a". From Hopper on it
    includes the instructions specific to this architecture."""
    major, minor = capability
    return f"sm_{major}{minor}{'a' if major >= 9 else ''}"
