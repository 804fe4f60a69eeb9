"""The build service: compiles what a candidate asks for, in a confined process, and keeps the result by content.

The cache is written by the judge only. A worker receives a sealed copy in memory, never a path into the cache.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from .. import native
from ..languages import LANGUAGES
from ..targets.cubin import KernelText
from ..types import CodecError, from_json, to_json
from ..workers import buffers
from ..workers.compiler import CudaReport
from ..workers.confine import Confinement
from .endings import CancelToken, WorkerDied, WorkerTimeout
from .leaving import Leaving
from .processes import ForkServer, Worker

_LIBRARY_BYTES, _LISTING_BYTES = 64 << 20, 32 << 20
_FLAG = re.compile(r"^-[A-Za-z0-9_+=.,\-]{1,200}$|^-D\w+(=[^\0]{0,200})?$")
_ARCHITECTURE = re.compile(r"^sm_\d{2,3}[a-z]?$")


@dataclass(frozen=True)
class Product:
    """What came of one build besides the binary. facts: static ones of a CPU library. symbols: of the names that were ordered.
    kernels: of a GPU's binary, by symbol."""

    facts: dict[str, float] = field(default_factory=dict)
    symbols: dict[str, str] = field(default_factory=dict)
    kernels: dict[str, KernelText] = field(default_factory=dict)


@dataclass(frozen=True)
class BuildRecord:
    """One build a candidate asked for. missing: what compiles the language is not installed. identity: equal for equal builds."""

    ok: bool
    cached: bool
    seconds: float
    log: str
    flags: tuple[str, ...]
    timed_out: bool = False
    missing: bool = False
    language: str = "cpp"
    identity: str = ""
    product: Product = field(default_factory=Product)


class BuildService:
    """What one candidate has compiled: `records`. Not thread-safe."""

    def __init__(
        self,
        server: ForkServer,
        rules: Confinement,
        scratch: str,
        cache: Path,
        seconds: float,
        leaving: Leaving,
        cancel: CancelToken | None,
    ) -> None:
        self._server, self._scratch, self._seconds, self._leaving, self._cancel = server, scratch, seconds, leaving, cancel
        self._folder = cache / "builds"
        self._compiler, self._toolkit = native.find_compiler(), native.find_toolkit()
        self._versions = {"cpp": compiler_version(self._compiler), "cuda": self._toolkit.version}
        self._rules = replace(rules, readable=(*rules.readable, *self._toolkit.folders))
        self.records: list[BuildRecord] = []

    def handle(self, request: dict[str, Any]) -> tuple[dict[str, Any], list[int]]:
        """Answer one request of a worker, a native.Order: {"symbols", "identity"} with a descriptor, or {"error": text}."""
        try:
            order = from_json(native.Order, request)
        except CodecError as error:
            return {"error": f"not a build request: {error}"}, []
        if refused := _refused(order):
            return {"error": refused}, []
        started, digest = time.monotonic(), _digest(order, self._versions[order.language])
        record = BuildRecord(True, True, 0.0, "", order.flags, language=order.language, identity=digest)
        path = self._folder / f"{digest}.bin"
        try:
            product = self._load(path)
            if product is None:
                product, record = self._compile(path, order), replace(record, cached=False)
        except _BuildFailed as failure:
            taken = time.monotonic() - started
            failed = replace(record, ok=False, cached=False, seconds=taken, log=failure.log)
            self.records.append(replace(failed, timed_out=failure.timed_out, missing=failure.missing))
            return {"error": failure.log if failure.missing else f"the compiler refused the source:\n{failure.log}"}, []
        self.records.append(replace(record, seconds=time.monotonic() - started, product=product))
        return {"symbols": product.symbols, "identity": digest}, [buffers.from_bytes("library", path.read_bytes())]

    def _load(self, path: Path) -> Product | None:
        try:
            product = from_json(Product, json.loads(path.with_suffix(".json").read_text()))
            return product if path.exists() else None
        except (OSError, ValueError):
            return None

    def _compile(self, path: Path, order: native.Order) -> Product:
        worker = self._server.worker("compiler", self._rules, self._scratch)
        worker.cancel = self._cancel
        text, library, listing = (
            buffers.from_bytes("source", order.source.encode()),
            buffers.create("library", _LIBRARY_BYTES, fixed=False),
            buffers.create("listing", _LISTING_BYTES, fixed=False),
        )
        try:
            result = self._ask(worker, [text, library, listing], order)
            if result["returncode"] != 0:
                raise _BuildFailed(result["log"], timed_out=bool(result.get("timeout")))
            product = _product(order, os.pread(listing, int(result["listing"]), 0).decode(errors="replace"))
            self._keep(path, os.pread(library, int(result["bytes"]), 0), product)
            return product
        except WorkerTimeout as error:
            raise _BuildFailed(f"the compiler did not end within {self._seconds:.0f} s", timed_out=True) from error
        except WorkerDied as error:
            raise _BuildFailed(f"the compiler's process {error}; the source may need more memory than a build may use") from error
        finally:
            self._leaving.add(worker)
            for fd in (text, library, listing):
                os.close(fd)

    def _ask(self, worker: Worker, fds: list[int], order: native.Order) -> Any:
        """Tell the confined worker to compile, with what this machine has."""
        limit = {"seconds": self._seconds + 5, "limit_s": self._seconds}
        flags = list(order.flags)
        if order.language == "cuda":
            if not self._versions["cuda"]:
                raise _BuildFailed(native.MISSING, missing=True)
            given = {"toolkit": to_json(self._toolkit), "architecture": order.architecture, "names": list(order.names)}
            return worker.data(worker.ask("compile_cuda", fds, flags=flags, **given, **limit))
        if self._compiler is None:
            raise _BuildFailed("no C++ compiler on this machine; install g++ (Debian: apt-get install g++)", missing=True)
        return worker.data(worker.ask("compile", fds, flags=flags, compiler=self._compiler, disassemble=True, **limit))

    def _keep(self, path: Path, data: bytes, product: Product) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        for target, content in ((path, data), (path.with_suffix(".json"), json.dumps(to_json(product)).encode())):
            part = target.with_name(f"{target.name}.{os.getpid()}.part")
            part.write_bytes(content)
            os.replace(part, target)


class _BuildFailed(Exception):
    def __init__(self, log: str, *, timed_out: bool = False, missing: bool = False) -> None:
        super().__init__(log)
        self.log, self.timed_out, self.missing = log, timed_out, missing


def _refused(order: native.Order) -> str:
    """Why an order is not one for a compiler, "" for a good one."""
    if order.language not in ("cpp", "cuda"):
        return f"there is no compiler for the language {order.language!r}; there are cpp and cuda"
    if bad := [f for f in order.flags if not _FLAG.match(f)]:
        return f"the flag {bad[0]!r} is not accepted; flags look like -O2, -ffast-math, --use_fast_math or -DNAME=VALUE"
    if order.language == "cuda" and not _ARCHITECTURE.match(order.architecture):
        return f"{order.architecture!r} is no architecture of a GPU; they look like sm_90a"
    return ""


def _product(order: native.Order, listing: str) -> Product:
    if order.language == "cpp":
        return Product(facts=LANGUAGES["cpp"].read_listing(listing))
    try:
        report = from_json(CudaReport, json.loads(listing))
    except ValueError as error:
        raise _BuildFailed(f"the compiler's process reported what cannot be read: {error}") from error
    return Product(symbols=report.symbols, kernels=report.kernels)


def _digest(order: native.Order, version: str) -> str:
    own = [native.DEFAULT_FLAGS, _cpu_flags()] if order.language == "cpp" else [native.CUDA_FLAGS]
    return hashlib.sha256(json.dumps([to_json(order), version, own]).encode()).hexdigest()[:40]


def compiler_version(compiler: str | None) -> str:
    """The first line of `--version`, "none" without a compiler."""
    if compiler is None:
        return "none"
    done = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=False)
    return done.stdout.splitlines()[0] if done.stdout else compiler


def _cpu_flags() -> str:
    try:
        with open("/proc/cpuinfo") as file:
            return next((line for line in file if line.startswith(("flags", "Features"))), "")
    except OSError:
        return ""
