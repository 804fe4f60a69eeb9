"""What can compile CUDA C++ here: NVRTC in this process (a fraction of a second), nvcc as the
slower way that also takes host code."""

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
    "nothing here compiles CUDA C++: neither NVRTC (pip install nvidia-cuda-nvrtc, or a torch with "
    "CUDA) nor nvcc was found"
)
_ONLY_NVCC = re.compile(r"not allowed in JIT mode|(?:cannot|could not) open source file")


@dataclass(frozen=True)
class Toolkit:
    """Paths; "" for what is not here. includes: folders with CUDA's headers."""

    nvrtc: str = ""
    nvcc: str = ""
    includes: tuple[str, ...] = ()

    @property
    def version(self) -> str:
        """What compiles, for people and for keys of caches; "" where nothing does."""
        versions = [f"NVRTC {nvrtc.version(self.nvrtc)}"] if self.nvrtc else []
        return ", ".join([*versions, *([nvcc.version(self.nvcc)] if self.nvcc else [])])

    @property
    def folders(self) -> tuple[str, ...]:
        """What a process that compiles must be able to read."""
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
    """image: the device's binary (cubin). symbols: of the ordered names. ptx: its text. log: with
    what ptxas says of each kernel."""

    image: bytes
    symbols: dict[str, str]
    ptx: str
    log: str


def compile_order(order: BuildOrder, toolkit: Toolkit, folder: str, seconds: float) -> Compiled:
    """By NVRTC; by nvcc where there is no NVRTC, or where the text is not for the device alone.
    folder: for temporary files. seconds: for nvcc, which is ended then. Raises SourceRefused with
    the compiler's words, NativeError, TimeoutError."""
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
    """What this interpreter and machine have. KEVOLVE_NVRTC names another libnvrtc, CUDA_HOME
    another toolkit."""
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
    """(9, 0) -> "sm_90a": with the instructions that only this architecture has, from Hopper on."""
    major, minor = capability
    return f"sm_{major}{minor}{'a' if major >= 9 else ''}"
