"""The compilers of the build service, one per language of native code: how an order is given to the
confined process, and how its result is read."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
from abc import ABC, abstractmethod
from dataclasses import dataclass, field

from ... import native
from ...targets.cubin import KernelListing
from ...types import CodecError, from_json, to_json
from ...wire import frames
from ...workers.compiler import CompileResult, CudaReport
from ..errors import Interfered
from .worker import Worker

_ARCHITECTURE = re.compile(r"sm_\d{2,3}[a-z]?")


@dataclass(frozen=True)
class Product:
    """The results of a build besides the binary. symbols: by the names in the order. kernels:
    listings of a GPU binary, by symbol."""

    symbols: dict[str, str] = field(default_factory=dict)
    kernels: dict[str, KernelListing] = field(default_factory=dict)


class BuildFailed(Exception):
    """An order produced no binary. missing: the language's compiler is not installed."""

    def __init__(self, log: str, *, timed_out: bool = False, missing: bool = False) -> None:
        super().__init__(log)
        self.log, self.timed_out, self.missing = log, timed_out, missing


class Compiler(ABC):
    """The compiler of one language on this machine. on_host: its results run on the host. folders:
    additional folders that its process may read. version: "" if it is not installed."""

    on_host: bool
    version: str
    folders: tuple[str, ...] = ()

    @abstractmethod
    def compile(
        self, worker: Worker, fds: list[int], order: native.BuildOrder, seconds: float
    ) -> CompileResult:
        """Let a confined process compile an order. fds: of the text, the binary and, unless its
        results run on the host, the listing.
        Raises BuildFailed where there is no compiler."""

    @abstractmethod
    def read_listing(self, listing: str) -> Product:
        """Parse the process's report about a binary. Raises ValueError, RecursionError and
        Interfered."""

    @abstractmethod
    def own_flags(self) -> list[object]:
        """Return what determines a binary besides order and version."""

    @staticmethod
    def refusal(order: native.BuildOrder) -> str:
        """Return why an order is invalid for this compiler, "" for a valid one."""
        return ""

    def digest(self, order: native.BuildOrder) -> str:
        """Return a digest that is equal for equal builds."""
        text = json.dumps([to_json(order), self.version, self.own_flags()])
        return hashlib.sha256(text.encode()).hexdigest()[:40]

    def product(self, listing: str) -> Product:
        """Parse the report as `read_listing` does. Raises BuildFailed."""
        try:
            build_product = self.read_listing(listing)
        except (ValueError, RecursionError, Interfered) as error:
            raise BuildFailed(
                f"the report of the compiler's process cannot be read: {error}"
            ) from error
        if len(json.dumps(build_product.symbols)) > frames.MAX_PACKET // 2:
            raise BuildFailed(
                "the mangled names of the kernels are too long to be sent; use shorter types, or "
                "fewer kernels in one build"
            )
        return build_product


class CppCompiler(Compiler):
    """C++ for the CPU: g++ or clang."""

    on_host = True

    def __init__(self) -> None:
        self._program = native.find_compiler()
        self.version = compiler_version(self._program)

    def compile(
        self, worker: Worker, fds: list[int], order: native.BuildOrder, seconds: float
    ) -> CompileResult:
        if self._program is None:
            raise BuildFailed(
                "no C++ compiler on this machine; install g++ (Debian: apt-get install g++)",
                missing=True,
            )
        reply = worker.ask(
            "compile",
            fds,
            seconds=seconds + 5,
            limit_s=seconds,
            flags=list(order.flags),
            compiler=self._program,
        )
        return _result(worker, reply)

    def read_listing(self, listing: str) -> Product:
        return Product()  # its analysis comes later, see Analyses

    def own_flags(self) -> list[object]:
        return [native.DEFAULT_FLAGS, _cpu_flags()]


class CudaCompiler(Compiler):
    """CUDA C++ for one architecture: NVRTC or nvcc."""

    on_host = False

    def __init__(self) -> None:
        self._toolkit = native.find_toolkit()
        self.version, self.folders = self._toolkit.version, self._toolkit.folders

    def compile(
        self, worker: Worker, fds: list[int], order: native.BuildOrder, seconds: float
    ) -> CompileResult:
        if not self.version:
            raise BuildFailed(native.MISSING, missing=True)
        reply = worker.ask(
            "compile_cuda",
            fds,
            seconds=seconds + 5,
            limit_s=seconds,
            flags=list(order.flags),
            toolkit=to_json(self._toolkit),
            architecture=order.architecture,
            names=list(order.names),
        )
        return _result(worker, reply)

    def read_listing(self, listing: str) -> Product:
        report = from_json(CudaReport, json.loads(listing))
        return Product(symbols=report.symbols, kernels=report.kernels)

    def own_flags(self) -> list[object]:
        return [native.CUDA_FLAGS]

    @staticmethod
    def refusal(order: native.BuildOrder) -> str:
        if _ARCHITECTURE.fullmatch(order.architecture):
            return ""
        return f"{order.architecture!r} is not an architecture of a GPU, such as sm_90a"


COMPILERS: dict[str, type[Compiler]] = {"cpp": CppCompiler, "cuda": CudaCompiler}


def compiler_version(compiler: str | None) -> str:
    """Return the first line of `--version`, "none" without a compiler."""
    if compiler is None:
        return "none"
    process = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=False)
    return process.stdout.splitlines()[0] if process.stdout else compiler


def _result(worker: Worker, reply: frames.Reply) -> CompileResult:
    try:
        return from_json(CompileResult, worker.data(reply))
    except CodecError as error:
        raise Interfered(f"its report cannot be read: {error}") from error


def _cpu_flags() -> str:
    try:
        with open("/proc/cpuinfo") as file:
            return next((line for line in file if line.startswith(("flags", "Features"))), "")
    except OSError:
        return ""
