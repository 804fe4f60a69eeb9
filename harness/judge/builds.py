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
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .. import native
from ..languages import Language
from ..workers import buffers
from ..workers.confine import Confinement
from .processes import CancelToken, ForkServer, WorkerDied, WorkerTimeout

_LIBRARY_BYTES = 64 << 20
_FLAG = re.compile(r"^-[A-Za-z0-9_+=.,\-]{1,200}$|^-D\w+(=[^\0]{0,200})?$")


@dataclass(frozen=True)
class BuildRecord:
    """One build a candidate asked for."""

    ok: bool
    cached: bool
    seconds: float
    log: str
    flags: tuple[str, ...]
    timed_out: bool = False
    facts: dict[str, float] = field(default_factory=dict)


class BuildService:
    """Not thread-safe. `records` collects the builds since the last `start`."""

    def __init__(
        self, server: ForkServer, rules: Confinement, scratch: str, cache: Path, language: Language, seconds: float
    ) -> None:
        self._server, self._rules, self._scratch, self._language, self._seconds = server, rules, scratch, language, seconds
        self._folder = cache / "builds"
        self.compiler = native.find_compiler()
        self.version = compiler_version(self.compiler)
        self.records: list[BuildRecord] = []
        self.cancel: CancelToken | None = None

    def start(self, cancel: CancelToken | None) -> None:
        """A new candidate."""
        self.records, self.cancel = [], cancel

    def handle(self, request: dict[str, Any]) -> tuple[dict[str, Any], list[int]]:
        """Answer one request of a worker: {"ok": true} with a descriptor, or {"error": text}."""
        source, flags = request.get("source"), request.get("flags")
        if not isinstance(source, str) or not isinstance(flags, list) or not all(isinstance(f, str) for f in flags):
            return {"error": "a build request needs source text and a list of flags"}, []
        if bad := [f for f in flags if not _FLAG.match(f)]:
            return {"error": f"the flag {bad[0]!r} is not accepted; flags look like -O2, -ffast-math, -mavx2 or -DNAME=VALUE"}, []
        if self.compiler is None:
            text = "no C++ compiler on this machine; install g++ (Debian: apt-get install g++)"
            self.records.append(BuildRecord(False, False, 0.0, text, tuple(flags)))
            return {"error": text}, []
        path = self._folder / f"{self._digest(source, flags)}.so"
        started = time.monotonic()
        try:
            facts, cached = self._load(path), True
            if facts is None:
                facts, cached = self._compile(path, source, flags), False
        except _BuildFailed as failure:
            self.records.append(
                BuildRecord(False, False, time.monotonic() - started, failure.log, tuple(flags), failure.timed_out)
            )
            return {"error": f"the C++ compiler refused the source:\n{failure.log}"}, []
        self.records.append(BuildRecord(True, cached, time.monotonic() - started, "", tuple(flags), facts=facts))
        fd = buffers.from_bytes("library", path.read_bytes())
        return {"ok": True}, [fd]

    def _digest(self, source: str, flags: list[str]) -> str:
        stamp = json.dumps([source, flags, native.DEFAULT_FLAGS, self.version, _cpu_flags()])
        return hashlib.sha256(stamp.encode()).hexdigest()[:40]

    def _load(self, path: Path) -> dict[str, float] | None:
        try:
            facts = json.loads(path.with_suffix(".json").read_text())
            return facts if path.exists() and isinstance(facts, dict) else None
        except (OSError, ValueError):
            return None

    def _compile(self, path: Path, source: str, flags: list[str]) -> dict[str, float]:
        worker = self._server.worker("compiler", self._rules, self._scratch)
        worker.cancel = self.cancel
        text, library, listing = (
            buffers.from_bytes("source", source.encode()),
            buffers.create("library", _LIBRARY_BYTES, fixed=False),
            buffers.create("listing", 8 << 20, fixed=False),
        )
        try:
            reply = worker.ask(
                "compile",
                [text, library, listing],
                seconds=self._seconds + 5,
                compiler=self.compiler,
                flags=flags,
                limit_s=self._seconds,
                disassemble=True,
            )
            result = worker.data(reply)
            if result["returncode"] != 0:
                raise _BuildFailed(result["log"], bool(result.get("timeout")))
            facts = self._language.read_listing(os.pread(listing, int(result["listing"]), 0).decode(errors="replace"))
            self._keep(path, os.pread(library, int(result["bytes"]), 0), facts)
            return facts
        except WorkerTimeout as error:
            raise _BuildFailed(f"the compiler did not end within {self._seconds:.0f} s", True) from error
        except WorkerDied as error:
            raise _BuildFailed(
                f"the compiler's process {error}; the source may need more memory than a build may use", False
            ) from error
        finally:
            worker.close()
            for fd in (text, library, listing):
                os.close(fd)

    def _keep(self, path: Path, data: bytes, facts: dict[str, float]) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        for target, content in ((path, data), (path.with_suffix(".json"), json.dumps(facts).encode())):
            part = target.with_name(f"{target.name}.{os.getpid()}.part")
            part.write_bytes(content)
            os.replace(part, target)


class _BuildFailed(Exception):
    def __init__(self, log: str, timed_out: bool) -> None:
        super().__init__(log)
        self.log, self.timed_out = log, timed_out


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
