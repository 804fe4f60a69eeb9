"""The compilers of the build service: for each language of native code what compiles it here, how
an order is put to the confined process, and what comes of it."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
from abc import ABC, abstractmethod
from dataclasses import dataclass, field

from ... import native
from ...assembly import Inside
from ...targets.cubin import KernelListing
from ...types import CodecError, from_json, to_json
from ...wire import frames
from ...workers.compiler import CompileResult, CudaReport
from ..errors import Interfered
from . import answers
from .worker import Worker

_ARCHITECTURE = re.compile(r"sm_\d{2,3}[a-z]?")


@dataclass(frozen=True)
class Product:
    """What came of one build besides the binary. inside: of a CPU library. symbols: of the names
    that were ordered. kernels: of a GPU's binary, by symbol."""

    inside: Inside = field(default_factory=Inside)
    symbols: dict[str, str] = field(default_factory=dict)
    kernels: dict[str, KernelListing] = field(default_factory=dict)


class BuildFailed(Exception):
    """No binary came of an order. missing: what compiles the language is not installed."""

    def __init__(self, log: str, *, timed_out: bool = False, missing: bool = False) -> None:
        super().__init__(log)
        self.log, self.timed_out, self.missing = log, timed_out, missing


class Compiler(ABC):
    """What compiles one language on this machine. on_host: what it makes runs on the host.
    folders: what its process may read besides. version: "" where there is none."""

    on_host: bool
    version: str
    folders: tuple[str, ...] = ()

    @abstractmethod
    def compile(
        self, worker: Worker, fds: list[int], order: native.BuildOrder, seconds: float
    ) -> CompileResult:
        """Tell a confined process to compile, with what this machine has. fds: of the text, the
        binary and the listing. Raises BuildFailed where nothing compiles the language."""

    @abstractmethod
    def read_listing(self, listing: str) -> Product:
        """What the process reported of a binary. Raises ValueError, RecursionError and
        Interfered."""

    @abstractmethod
    def own_flags(self) -> list[object]:
        """What else decides about a binary besides order and version."""

    @staticmethod
    def refusal(order: native.BuildOrder) -> str:
        """Why an order is not one for this compiler, "" for a good one."""
        return ""

    def digest(self, order: native.BuildOrder) -> str:
        """Equal for equal builds."""
        text = json.dumps([to_json(order), self.version, self.own_flags()])
        return hashlib.sha256(text.encode()).hexdigest()[:40]

    def product(self, listing: str) -> Product:
        """As `read_listing`; raises BuildFailed."""
        try:
            build_product = self.read_listing(listing)
        except (ValueError, RecursionError, Interfered) as error:
            raise BuildFailed(
                f"the compiler's process reported what cannot be read: {error}"
            ) from error
        if len(json.dumps(build_product.symbols)) > frames.MAX_PACKET // 2:
            raise BuildFailed(
                "the mangled names of the kernels are too long to be handed over; give them "
                "shorter types, or fewer in one build"
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
            disassemble=True,
        )
        return _result(worker, reply)

    def read_listing(self, listing: str) -> Product:
        return Product(inside=answers.read_inside(listing))

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
        return f"{order.architecture!r} is no architecture of a GPU; they look like sm_90a"


COMPILERS: dict[str, type[Compiler]] = {"cpp": CppCompiler, "cuda": CudaCompiler}


def compiler_version(compiler: str | None) -> str:
    """The first line of `--version`, "none" without a compiler."""
    if compiler is None:
        return "none"
    process = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=False)
    return process.stdout.splitlines()[0] if process.stdout else compiler


def _result(worker: Worker, reply: frames.Reply) -> CompileResult:
    try:
        return from_json(CompileResult, worker.data(reply))
    except CodecError as error:
        raise Interfered(f"it reported what cannot be read: {error}") from error


def _cpu_flags() -> str:
    try:
        with open("/proc/cpuinfo") as file:
            return next((line for line in file if line.startswith(("flags", "Features"))), "")
    except OSError:
        return ""
