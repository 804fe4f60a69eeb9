"""Starts the workers of a task, confined like a candidate's but with what a reference may need in
addition."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import secrets
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...settings import task_seconds
from ...targets import DeviceFamily
from ...wire import memory_files
from ...wire.task_lines import FORWARD, Lines
from ...workers import compile_cache
from ..device import host_memory
from ..device.machine import Machine
from ..errors import (
    CancelToken,
    Interfered,
    TaskRefusedError,
    WorkerDied,
    WorkerFailed,
    WorkerTimeout,
)
from ..processes.fork_servers import everybodys
from ..processes.worker import Worker
from . import cache_files

TASK_SECONDS = task_seconds()  # the limit for each request to a task's worker
MOST_KEPT, MOST_KEPT_BYTES = 200, 2 << 30  # limits on the kept caches of all tasks together
STACK_SHARE = 0.9  # share of the deadline after which a running step writes its stack
_FRAME = re.compile(r'File "([^"]+)", line (\d+) in')


@dataclass(frozen=True)
class TaskText:
    """What a worker needs to open a task. path: of the file, "" if the task was given as text."""

    source: str
    path: str
    held_out: str
    seed: int

    @classmethod
    def of(cls, source: str, path: str) -> TaskText:
        """Create it with the present held-out companion beside the file, and a new seed."""
        companion = Path(path).with_name(f"{Path(path).stem}.heldout.py") if path else None
        held_out = companion.read_text() if companion is not None and companion.is_file() else ""
        return cls(source, path, held_out, secrets.randbits(48))

    @property
    def filename(self) -> str:
        return os.path.basename(self.path) if self.path else "task.py"

    @property
    def folder(self) -> str:
        """The task's own folder, which it may read; "" if it has none, or if it is a general folder
        such as the home."""
        folder = os.path.realpath(os.path.dirname(os.path.abspath(self.path))) if self.path else ""
        return "" if not folder or everybodys(folder) else folder

    @property
    def lines(self) -> Lines:
        return Lines(self.source, self.filename)


class TaskWorkers:
    """Starts processes for one task on one device family, and passes what one has compiled on to
    the next.

    neighbours: names and digests of the files that the first process loaded from the task's folder,
    once known; the others must load the same."""

    def __init__(self, machine: Machine, family: DeviceFamily, text: TaskText) -> None:
        self._machine, self._family, self.text = machine, family, text
        self.neighbours: dict[str, str] | None = None
        self._stack = memory_files.create("stack", 0, fixed=False)
        key = hashlib.sha256(
            "\0".join((text.source, text.held_out, text.folder)).encode()
        ).hexdigest()
        self._cache_file = machine.cache / "compiled" / f"{key[:32]}.tar"

    def start(
        self, cancel: CancelToken | None = None, *, compiles: bool = False, allocation: bool = True
    ) -> tuple[Worker, dict[str, Any]]:
        """Start a confined process and open the task in it. Returns the worker and the task's
        declarations. Raises what Worker.wait raises, and TaskRefusedError if the files that the
        task loads from its folder have changed since the first process.

        compiles: it runs baselines, one of them with torch.compile. allocation: use the allocator
        policy of every comparison; False for the allocator's defaults."""
        worker = self._machine.task_worker(
            self._family, self.text.folder, compiles=compiles, allocation=allocation
        )
        worker.cancel = cancel
        held_out_name = f"{Path(self.text.filename).stem}.heldout.py"
        compiled = b""
        if compiles:
            with contextlib.suppress(FileNotFoundError):
                compiled = cache_files.read(self._cache_file)
        texts = [
            memory_files.from_bytes("task", t)
            for t in (self.text.source.encode(), self.text.held_out.encode())
        ]
        packed = memory_files.from_bytes("compiled", compiled)
        worker.note_base()
        try:
            reply = worker.ask(
                "open",
                [*texts, self._stack, packed],
                seconds=TASK_SECONDS,
                filename=self.text.filename,
                held_out_name=held_out_name,
                folder=self.text.folder,
                search_path=os.environ.get("PATH", "/usr/bin:/bin"),
                seed=self.text.seed,
                cpus=len(os.sched_getaffinity(0)),
                device=self._family.TORCH_DEVICE,
                patience_s=STACK_SHARE * TASK_SECONDS,
                neighbours=self.neighbours,
            )
            declaration: dict[str, Any] = worker.data(reply)
            if self.neighbours is not None and (
                changed := differing(self.neighbours, declaration["neighbours"])
            ):
                raise TaskRefusedError(
                    f"{self.text.lines.at()}: {changed} beside the task changed since it was "
                    "opened; open the task again"
                )
            return worker, declaration
        except BaseException as error:
            reason = self.refusal(error, worker)
            worker.close()
            raise (WorkerFailed("task", reason) if reason else error) from error
        finally:
            for fd in (*texts, packed):
                os.close(fd)

    def keep(self, worker: Worker) -> None:
        """Keep what a process has compiled for later processes with this task. The judge does not
        read it: it comes from a sandbox and goes to a sandbox."""
        fd = memory_files.create("compiled", 0, fixed=False)
        try:
            reply = worker.data(worker.ask("pack", [fd], seconds=TASK_SECONDS))
            size = reply.get("bytes") if isinstance(reply, dict) else None
            if isinstance(size, int) and 0 < size <= compile_cache.MOST_BYTES:
                cache_files.write(
                    self._cache_file,
                    os.pread(fd, size, 0),
                    most_files=MOST_KEPT,
                    most_bytes=MOST_KEPT_BYTES,
                )
        finally:
            os.close(fd)

    def refusal(self, error: BaseException, worker: Worker) -> str:
        """Return why the task cannot be judged, with file, line, reason and fix; "" for an error
        that is not the task's."""
        lines = self.text.lines
        if isinstance(error, WorkerFailed):
            return str(error)
        if isinstance(error, WorkerTimeout) or self._died_of_looking(error):
            return (
                f"{self._where(lines)}: the task did not answer in time; does it loop, wait for "
                f"input or download something? The limit for each step is {TASK_SECONDS:.0f} s."
            )
        if isinstance(error, Interfered):
            return (
                f"{lines.at()}: the task's process broke the evaluator's protocol ({error}); leave "
                "inherited descriptors alone"
            )
        if isinstance(error, WorkerDied) and error.held_bytes:
            return (
                f"{self._where(lines)}: the task {error}; the limit on this machine is "
                f"{host_memory.limit_bytes() / 2**30:.1f} GiB. Use smaller shapes."
            )
        if isinstance(error, WorkerDied) and error.signal_number == 9 and error.starved:
            return (
                f"{self._where(lines)}: this machine ran out of memory while the task ran, and "
                f"the system ended its process: it held {error.peak / 2**30:.1f} GiB, and "
                f"{host_memory.available() / 2**30:.1f} GiB are free now. Use smaller shapes, a "
                "machine with more memory, or wait until other programs need less."
            )
        if isinstance(error, WorkerDied):
            exited = lines.ending and (error.exit_code is not None or error.signal_number == 9)
            where = f"{lines.filename}, line {lines.ending}" if exited else self._where(lines)
            log = worker.log()[-800:].strip()
            return (
                f"{where}: the task's process {error}; a task must not end its process. It "
                f"printed: {log or 'nothing'}"
            )
        return ""

    def _died_of_looking(self, error: BaseException) -> bool:
        """Return whether the process was too slow and then crashed while writing its stack: Python
        writes it while other code runs, which can crash."""
        crashed = isinstance(error, WorkerDied) and error.signal_number == signal.SIGSEGV
        return crashed and os.pread(self._stack, 9, 0) == b"Timeout ("

    def _where(self, lines: Lines) -> str:
        """Return the innermost line of the task in the stack that its process wrote, otherwise the
        line of forward."""
        size = os.fstat(self._stack).st_size
        for file, line in _FRAME.findall(
            os.pread(self._stack, min(size, 1 << 16), 0).decode(errors="replace")
        ):
            if file == lines.filename:
                return f"{file}, line {line}"
        return lines.at(*FORWARD)

    def close(self) -> None:
        os.close(self._stack)


def differing(first: dict[str, str], second: dict[str, str]) -> str:
    """Return the names of files that two processes loaded with different contents."""
    return ", ".join(
        sorted(name for name in {*first, *second} if first.get(name) != second.get(name))
    )
