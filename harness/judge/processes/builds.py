"""The build service: compiles a candidate's orders in a confined process, and keeps the results for
equal orders in this evaluation.

Only the judge writes the kept results. A worker receives a sealed copy in memory, never a path. A
build that is available at once was ordered before, which tells the candidate one bit. So the
checked process never finds anything built, since it could otherwise count its evaluations. All
timed processes find everything built that the checked one ordered, and are ended if they order
anything else, so that asking costs the evaluation. The result of an order must not depend on the
time at which it is made: an order that exceeds a limit ends the process as well.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from ... import native
from ...assembly import Inside
from ...languages import flags
from ...sandbox.confine import Confinement
from ...types import CodecError, from_json
from ...wire import frames, memory_files
from ..errors import CancelToken, Interfered, OrderEnds, WorkerDied, WorkerFailed, WorkerTimeout
from .analyses import LISTING_BYTES, Analyses
from .answers import printable, read_file
from .compilers import COMPILERS, BuildFailed, Product
from .fork_server_process import ForkServer
from .reaper import Reaper
from .worker import BuildHandler

_LIBRARY_BYTES = 64 << 20
MOST_ORDERS = 100  # orders of one process
# bytes of all answers to one process together: each answer is a memory file of its own, which a
# process can hold where its watcher does not count it (mapped and never read)
MOST_HANDED_OUT = 256 << 20
# the limit on all builds of an evaluation, as a multiple of the time for one: a candidate's
# deadlines are extended while it waits for builds
MOST_BUILDS = 10
# limits on flags, defines and names together, which are sent in one packet
_ORDER_CHARS, _ORDER_TEXTS = 16_000, 200
LATE = (
    "a build was ordered for the first time in a timed process; build what you need when the "
    "module is loaded or in the first calls. A timed process gets the builds that the checked "
    "process before it ordered with the same text, flags and defines; any other order ends it"
)


@dataclass(frozen=True)
class BuildRecord:
    """One build that a candidate ordered. missing: the language's compiler is not installed.
    refused: the order was invalid. identity: equal for equal builds. reply: what the candidate's
    process was told about a failure."""

    ok: bool
    cached: bool
    seconds: float
    log: str
    flags: tuple[str, ...]
    timed_out: bool = False
    missing: bool = False
    refused: bool = False
    language: str = "cpp"
    identity: str = ""
    reply: str = ""
    product: Product = field(default_factory=Product)

    @property
    def on_host(self) -> bool:
        """Whether it is a library of host code and not a GPU binary."""
        return COMPILERS[self.language].on_host


@dataclass(frozen=True)
class _Build:
    """The result of an order, and the path of the binary."""

    record: BuildRecord
    path: Path


@dataclass(frozen=True)
class EvaluationBuilds:
    """The results of an evaluation's orders by digest: record and binary. size: their bytes
    together."""

    orders: Mapping[str, tuple[BuildRecord, bytes]]
    size: int


class BuildService:
    """The builds of one candidate in one evaluation (`records`). Not thread-safe. Close it when the
    evaluation ends."""

    spent_s: float = 0.0  # seconds that compilers took

    def __init__(
        self,
        server: ForkServer,
        rules: Confinement,
        scratch: str,
        seconds: float,
        reaper: Reaper,
        cancel: CancelToken | None,
    ) -> None:
        self._server, self._scratch, self._seconds, self._reaper, self._cancel = (
            server,
            scratch,
            seconds,
            reaper,
            cancel,
        )
        self._folder, self._settled = "", False
        self._analyses = Analyses(reaper)
        self._builds: dict[str, _Build] = {}
        self._compilers = {language: kind() for language, kind in COMPILERS.items()}
        folders = [folder for c in self._compilers.values() for folder in c.folders]
        self._rules = replace(rules, readable=(*rules.readable, *folders), tools=True)
        self.records: list[BuildRecord] = []

    def analyses(self) -> Mapping[str, Inside]:
        """Return what is inside the CPU libraries that were built, by identity. Waits for the
        processes that find it out."""
        return self._analyses.found()

    def close(self) -> None:
        """Remove the kept results."""
        self._analyses.close()
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)

    def desk(self) -> BuildHandler:
        """Return a handler for the orders of one process, whose number is limited, and so are the
        bytes that it receives. The first process is checked, or only compiles; later ones get only
        what it has ordered. After `take_over` this applies to all processes."""
        orders, handed_out, fixed = 0, 0, self._settled
        self._settled = True

        def handle(request: Any) -> tuple[dict[str, Any], list[int], float]:
            nonlocal orders, handed_out
            orders += 1
            if orders > MOST_ORDERS:
                raise self._end_order(
                    f"more than {MOST_ORDERS} builds in one process. Put the kernels into fewer "
                    "sources, build each once when the module is loaded, and keep the results of "
                    "load_cpp and load_cuda"
                )
            before = self.spent_s
            answer, fds = self.handle(request, fixed=fixed)
            handed_out += len(json.dumps(answer)) + sum(os.fstat(fd).st_size for fd in fds)
            if handed_out > MOST_HANDED_OUT:
                for fd in fds:
                    os.close(fd)
                raise self._end_order(
                    f"the builds that one process ordered have more than "
                    f"{MOST_HANDED_OUT >> 20} MiB together. Build each source once when the module "
                    "is loaded, keep the results of load_cpp and load_cuda, and make tables when "
                    "the module is loaded instead of compiling them in"
                )
            return answer, fds, self.spent_s - before

        return handle

    def hand_over(self, most: int) -> EvaluationBuilds | None:
        """Return the orders so far, for another evaluation of the same text in which nothing is
        checked; None if they have more than `most` bytes. Facts about binaries are left out."""
        orders, size = {}, 0
        for digest, build in self._builds.items():
            facts = Product(symbols=build.record.product.symbols)
            record = replace(build.record, product=facts)
            size += len(record.log) + len(record.reply) + len(json.dumps(facts.symbols))
            size += build.path.stat().st_size if record.ok else 0
            if size > most:
                return None
            orders[digest] = (record, build.path.read_bytes() if record.ok else b"")
        return EvaluationBuilds(orders, size)

    def take_over(self, builds: EvaluationBuilds) -> None:
        """Serve only these orders from now on."""
        self._settled = True
        for digest, (record, binary) in builds.orders.items():
            build = self._builds[digest] = _Build(record, self._path(digest))
            if record.ok:
                build.path.write_bytes(binary)

    def handle(self, request: Any, *, fixed: bool = False) -> tuple[dict[str, Any], list[int]]:
        """Answer one request of a worker, a native.BuildOrder, with {"symbols", "identity"} and a
        descriptor, or with {"error": text}. fixed: serve only orders that were made before in this
        evaluation. Raises Interfered for requests that `harness.native` never sends, OrderEnds for
        orders that end the process."""
        if not isinstance(request, dict) or set(request) != {
            f.name for f in fields(native.BuildOrder)
        }:
            raise Interfered("its request is not an order for the build service")
        try:
            order = from_json(native.BuildOrder, request)
            refusal = _refusal(order)
        except CodecError as error:
            refusal = printable(f"the fields of a build order must be text: {error}")
        if refusal:
            return self._refuse(refusal)
        digest = self._compilers[order.language].digest(order)
        build = self._builds.get(digest)
        if build is not None:
            self.records.append(replace(build.record, cached=build.record.ok, seconds=0.0))
        elif fixed:
            raise self._end_order(LATE)
        else:
            build = self._builds[digest] = self._order(order, digest)
            self.records.append(build.record)
        if build.record.timed_out:  # depends on other orders and on the machine's load
            raise OrderEnds(build.record.reply)
        if not build.record.ok:
            return {"error": build.record.reply}, []
        answer = {"symbols": build.record.product.symbols, "identity": digest}
        return answer, [memory_files.from_bytes("library", build.path.read_bytes())]

    def _end_order(self, why: str) -> OrderEnds:
        self._refuse(why)
        return OrderEnds(self.records[-1].reply)

    def _refuse(self, why: str) -> tuple[dict[str, Any], list[int]]:
        reply = _fit_packet(why)
        self.records.append(BuildRecord(False, False, 0.0, why, (), refused=True, reply=reply))
        return {"error": reply}, []

    def _order(self, order: native.BuildOrder, digest: str) -> _Build:
        """Build the first order of its kind in this evaluation. A failure is kept as well, so that
        later processes get the same result."""
        record = BuildRecord(
            True, False, 0.0, "", order.flags, language=order.language, identity=digest
        )
        started = time.monotonic()
        path = self._path(digest)
        try:
            product = self._compile(path, order, digest)
            return _Build(
                replace(record, seconds=time.monotonic() - started, product=product), path
            )
        except BuildFailed as failure:
            reply = (
                failure.log
                if failure.missing
                else _fit_packet(f"the compiler refused the source:\n{failure.log}")
            )
            failure_record = replace(
                record,
                ok=False,
                seconds=time.monotonic() - started,
                log=failure.log,
                reply=reply,
            )
            return _Build(
                replace(failure_record, timed_out=failure.timed_out, missing=failure.missing), path
            )

    def _path(self, digest: str) -> Path:
        self._folder = self._folder or tempfile.mkdtemp(prefix="builds-", dir=self._scratch)
        return Path(self._folder) / f"{digest}.bin"

    def _compile(self, path: Path, order: native.BuildOrder, digest: str) -> Product:
        if self.spent_s > MOST_BUILDS * self._seconds:
            raise BuildFailed(
                f"compilers have worked on this candidate for {self.spent_s:.0f} s; the limit for "
                f"all builds of an evaluation together is {MOST_BUILDS * self._seconds:.0f} s. "
                "Build less, or with fewer templates and lower optimization",
                timed_out=True,
            )
        started = time.monotonic()
        try:
            return self._run_compiler(path, order, digest)
        finally:
            self.spent_s += time.monotonic() - started

    def _run_compiler(self, path: Path, order: native.BuildOrder, digest: str) -> Product:
        analysing = False
        worker = self._server.worker("compiler", self._rules, self._scratch)
        worker.cancel = self._cancel
        compiler = self._compilers[order.language]
        fds = [
            memory_files.from_bytes("source", order.source.encode()),
            memory_files.create("library", _LIBRARY_BYTES, fixed=False),
        ]
        if not compiler.on_host:
            fds.append(memory_files.create("listing", LISTING_BYTES, fixed=False))
        try:
            result = compiler.compile(worker, fds, order, self._seconds)
            if result.returncode != 0:
                raise BuildFailed(printable(result.log), timed_out=result.timeout)
            listing = b"".join(read_file(fd, result.listing, LISTING_BYTES) for fd in fds[2:])
            product = compiler.product(listing.decode(errors="replace"))
            path.write_bytes(read_file(fds[1], result.bytes, _LIBRARY_BYTES))
            if compiler.on_host:
                self._analyses.begin(digest, worker)
                analysing = True
            return product
        except WorkerTimeout as error:
            raise BuildFailed(
                f"the compiler did not end within {self._seconds:.0f} s", timed_out=True
            ) from error
        except (WorkerFailed, Interfered) as error:
            raise BuildFailed(f"the compiler's process failed: {error}") from error
        except WorkerDied as error:
            raise BuildFailed(
                f"the compiler's process {error}; the source may need more memory than a build may "
                "use"
            ) from error
        finally:
            if not analysing:
                self._reaper.add(worker)
            for fd in fds:
                os.close(fd)


def _fit_packet(text: str) -> str:
    """Shorten a text until its JSON form fits into a packet."""
    while len(json.dumps(text)) > frames.MAX_PACKET // 2:
        text = text[: len(text) // 2]
    return text


def _refusal(order: native.BuildOrder) -> str:
    """Return why an order is invalid, "" for a valid one."""
    if (line := _not_unicode(order.source)) is not None:
        return (
            f"line {line} of the native source is not valid Unicode: it contains half of a "
            "surrogate pair (\\ud800 to \\udfff). Write the character itself, or \\U and its eight "
            "digits"
        )
    if any(
        _not_unicode(text) is not None
        for text in (*order.flags, *order.names, order.language, order.architecture)
    ):
        return "a flag, a define or the name of a kernel is not valid Unicode; use plain letters"
    if (
        sum(map(len, (*order.flags, *order.names))) > _ORDER_CHARS
        or len(order.flags) + len(order.names) > _ORDER_TEXTS
    ):
        return (
            f"at most {_ORDER_TEXTS} flags, defines and names of kernels are accepted, with "
            f"{_ORDER_CHARS} characters in all; put the rest into the source"
        )
    if order.language not in COMPILERS:
        there = " and ".join(COMPILERS)
        return f"there is no compiler for the language {order.language!r}; there are {there}"
    if refusal := next(filter(None, (flags.refusal(order.language, f) for f in order.flags)), ""):
        return refusal
    return COMPILERS[order.language].refusal(order)


def _not_unicode(text: str) -> int | None:
    """Return the first line, from 1, that cannot be encoded; None if there is none."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        return text.count("\n", 0, error.start) + 1
    return None
