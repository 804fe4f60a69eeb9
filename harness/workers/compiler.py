"""The confined build service: runs the compiler for one request, and is used once like a
candidate's worker."""

from __future__ import annotations

import json
import os
import subprocess
import time
from dataclasses import dataclass
from typing import Any

from .. import assembly, native
from ..targets import cubin
from ..types import from_json, to_json
from ..wire import memory_files
from . import binaries, host

_SOURCE, _LIBRARY = "kernel.cpp", "kernel.so"  # in the worker's own folder


@dataclass(frozen=True)
class CudaReport:
    """The listings of a CUDA build. symbols: by the names in the order. kernels: by symbol."""

    symbols: dict[str, str]
    kernels: dict[str, cubin.KernelListing]


@dataclass(frozen=True)
class CompileResult:
    """The result of a compiler run. log: the compiler's output. bytes, listing: sizes of the files
    written. seconds: the compiler's time."""

    returncode: int
    log: str = ""
    bytes: int = 0
    listing: int = 0
    timeout: bool = False
    seconds: float = 0.0


class CompilerHost(host.Host):
    """One command per language: compile text to a descriptor."""

    _source = ""  # of the library that it has compiled

    def on_compile(
        self, fds: list[int], compiler: str, flags: list[str], limit_s: float
    ) -> dict[str, Any]:
        """Compile C++. Descriptors: the source text, a file for the library. Returns the fields of
        a CompileResult. Line tables, for the analysis, do not change the instructions."""
        source = memory_files.read_all(fds[0])
        with open(_SOURCE, "wb") as file:
            file.write(source)
        os.utime(_SOURCE, (0, 0))  # __TIMESTAMP__
        command = native.compile_command(
            compiler, _SOURCE, _LIBRARY, ["-g1", *flags, "-fdiagnostics-color=never"]
        )
        started = time.monotonic()
        try:
            process = subprocess.run(
                command, capture_output=True, timeout=limit_s, check=False, stdin=subprocess.DEVNULL
            )
        except subprocess.TimeoutExpired:
            return {
                "returncode": -1,
                "log": f"the compiler did not end within {limit_s:.0f} s",
                "timeout": True,
            }
        log = process.stderr.decode(errors="replace").replace(f"{os.getcwd()}/", "")[-40_000:]
        result: dict[str, Any] = {
            "returncode": process.returncode,
            "log": log,
            "seconds": time.monotonic() - started,
        }
        if process.returncode == 0:
            with open(_LIBRARY, "rb") as library:
                result["bytes"] = _write(library.read(), fds[1])
            self._source = source.decode(errors="replace")
        return result

    def on_inspect(self, fds: list[int]) -> tuple[Any, tuple[int, ...]]:
        """Analyse the library that this process has compiled. Descriptor: a file for the analysis
        (assembly.Inside). values: its size."""
        names = list(native.read_prototypes(self._source))
        contents = assembly.inspect(_LIBRARY, self._source, _SOURCE, names)
        return None, (_write(json.dumps(to_json(contents)).encode(), fds[0]),)

    def on_compile_cuda(
        self,
        fds: list[int],
        toolkit: dict[str, Any],
        flags: list[str],
        architecture: str,
        names: list[str],
        limit_s: float,
    ) -> dict[str, Any]:
        """Compile CUDA C++. Descriptors: the source text, a file for the binary, a file for a
        CudaReport. Returns the fields of a CompileResult."""
        folder = os.getcwd()
        order = native.BuildOrder(
            "cuda", memory_files.read_all(fds[0]).decode(), tuple(flags), architecture, tuple(names)
        )
        try:
            build = native.compile_order(order, from_json(native.Toolkit, toolkit), folder, limit_s)
        except TimeoutError as error:
            return {"returncode": -1, "log": str(error), "timeout": True}
        except native.NativeError as error:
            return {"returncode": 1, "log": str(error)[-40_000:]}
        sass = binaries.run("nvdisasm", ["-c"], build.image)
        report = to_json(CudaReport(build.symbols, cubin.split(build.ptx, sass, build.log)))
        return {
            "returncode": 0,
            "log": build.log[-40_000:],
            "bytes": _write(build.image, fds[1]),
            "listing": _write(json.dumps(report).encode(), fds[2]),
        }


def _write(data: bytes, fd: int) -> int:
    os.ftruncate(fd, 0)
    position = 0
    while position < len(data):
        position += os.pwrite(fd, data[position:], position)
    return len(data)


def serve(sock: Any, text_fd: int) -> None:
    """Entry of the forked, confined child."""
    # __DATE__ and __TIME__ would reveal whether a build had been ordered before
    os.environ["SOURCE_DATE_EPOCH"] = "0"
    CompilerHost(sock, text_fd).serve()
