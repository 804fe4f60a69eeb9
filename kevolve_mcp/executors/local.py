"""The judge on this machine: one process in the interpreter of the user's choice, spoken to in JSON lines."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import itertools
import json
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import harness
from harness.judge.environment import JUDGE_ENVIRONMENT
from harness.types import Evaluation, EvaluationRequest, Interpreter, MachineReport, Task, from_json, to_json
from kevolve_mcp.errors import EvaluatorUnavailable, KEvolveError, TaskRefused, Unavailable, UsageError

from .base import Executor, Progress, ProgressEvent
from .interpreters import find_interpreters

_LINE_BYTES = 256 << 20  # a task's text and logs travel in one line


class LocalExecutor(Executor):
    """python: the interpreter asked for, or None to search. near: the task's file, whose .venv is considered.

    A judge that died is started again at the next call; the call during which it died raises EvaluatorUnavailable.
    """

    def __init__(self, python: str | None, cache: Path, near: Path | None = None, *, configured: str = "") -> None:
        self._python, self._cache, self._near, self._configured = python, cache, near, configured
        self._judge: _Judge | None = None
        self._starting = asyncio.Lock()
        self._closed = False

    async def describe(self, *, ceilings: bool = False) -> MachineReport:
        return from_json(MachineReport, await self._call({"op": "describe", "ceilings": ceilings}, None))

    async def open_task(
        self, source: str, path: str, target: str, *, timed: bool = True, progress: Progress | None = None
    ) -> Task:
        message = {"op": "open_task", "source": source, "path": path, "target": target, "timed": timed}
        return from_json(Task, await self._call(message, progress))

    async def evaluate(
        self, task: Task, request: EvaluationRequest, target: str, *, progress: Progress | None = None
    ) -> Evaluation:
        message = {"op": "evaluate", "task": to_json(task), "request": to_json(request), "target": target}
        return from_json(Evaluation, await self._call(message, progress))

    async def interpreters(self) -> tuple[Interpreter, ...]:
        return await asyncio.to_thread(find_interpreters, self._python, self._configured, self._near)

    async def close(self) -> None:
        self._closed = True
        if self._judge is not None:
            await self._judge.close()
            self._judge = None

    async def _call(self, message: dict[str, Any], progress: Progress | None) -> Any:
        if self._closed:
            raise EvaluatorUnavailable("this executor is closed", "Open a new one.")
        async with self._starting:
            if self._judge is None or not self._judge.alive:
                self._judge = await self._start()
        return await self._judge.call(message, progress)

    async def _start(self) -> _Judge:
        found = await self.interpreters()
        chosen = next((i for i in found if i.usable), None)
        if chosen is None:
            listed = "; ".join(f"{i.path} ({i.origin}): {i.reason}" for i in found)
            if self._python:
                raise UsageError(
                    f"the interpreter that was named cannot evaluate: {listed}",
                    "Name a Python that has torch, e.g. .venv/bin/python, or leave it out: one is then looked for.",
                )
            raise Unavailable(
                f"no Python that can evaluate was found: {listed}",
                "Install torch (pip install torch) in one of them, or name another with --python or KEVOLVE_PYTHON.",
            )
        try:
            root = await asyncio.to_thread(private_copy, self._cache)
            with tempfile.TemporaryFile(dir=self._cache):
                pass
        except OSError as error:
            raise Unavailable(
                f"the cache folder {self._cache} cannot be written: {error.strerror}",
                "Builds and the judge's files go there; set KEVOLVE_CACHE to a writable folder.",
            ) from error
        code = f"import sys; sys.path.insert(0, {str(root)!r}); from harness.judge.main import main; main({str(self._cache.resolve())!r})"
        process = await asyncio.create_subprocess_exec(
            chosen.path,
            "-I",
            "-c",
            code,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=sys.stderr if _has_descriptor(sys.stderr) else asyncio.subprocess.DEVNULL,
            env={**os.environ, **JUDGE_ENVIRONMENT},
            limit=_LINE_BYTES,
            start_new_session=True,  # Ctrl-C in a terminal is ours to handle
        )
        return _Judge(process)


class _Judge:
    """One judge process and the calls in flight."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._numbers = itertools.count(1)
        self._calls: dict[int, tuple[asyncio.Future[Any], Progress | None]] = {}
        self._reader = asyncio.create_task(self._read())

    @property
    def alive(self) -> bool:
        return self._process.returncode is None and not self._reader.done()

    async def call(self, message: dict[str, Any], progress: Progress | None) -> Any:
        number = next(self._numbers)
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        if self._calls and progress is not None:
            progress(ProgressEvent("queue", f"waiting for {len(self._calls)} evaluation(s) before this one", 0.0))
        self._calls[number] = (answer, progress)
        try:
            await self._send({"id": number, **message})
            return await asyncio.shield(answer)
        except asyncio.CancelledError:
            self._calls[number] = (answer, None)
            with contextlib.suppress(EvaluatorUnavailable, KEvolveError):
                await self._send({"op": "cancel", "id": number})
                await asyncio.wait([answer], timeout=20)  # its processes are dead when the judge answers
            raise
        finally:
            self._calls.pop(number, None)
            if answer.done() and not answer.cancelled():
                answer.exception()  # retrieved, so that a late failure is not reported as forgotten

    async def _send(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(message).encode() + b"\n")
            await self._process.stdin.drain()
        except (BrokenPipeError, ConnectionResetError) as error:
            raise EvaluatorUnavailable(
                "the judge process is gone", "The call can be repeated; a new judge is started."
            ) from error

    async def _read(self) -> None:
        assert self._process.stdout is not None
        with contextlib.suppress(asyncio.CancelledError, ValueError, OSError):
            while line := await self._process.stdout.readline():
                self._take(json.loads(line))
        for answer, _ in self._calls.values():
            if not answer.done():
                answer.set_exception(
                    EvaluatorUnavailable(
                        "the judge process ended unexpectedly", "The call can be repeated; a new judge is started."
                    )
                )

    def _take(self, message: dict[str, Any]) -> None:
        answer, progress = self._calls.get(message["id"], (None, None))
        if answer is None or answer.done():
            return
        if "event" in message:
            if progress is not None:
                progress(ProgressEvent(**message["event"]))
        elif "error" in message:
            answer.set_exception(_raised(message["error"]))
        else:
            answer.set_result(message["result"])

    async def close(self) -> None:
        """Close its stdin, which ends it and everything it started; kill what does not end."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            await asyncio.wait_for(self._process.wait(), 10)
        except asyncio.TimeoutError:
            self._process.kill()
            await self._process.wait()
        await self._reader


def _raised(error: dict[str, str]) -> KEvolveError:
    kinds: dict[str, type[KEvolveError]] = {"task_refused": TaskRefused, "unavailable": Unavailable}
    return kinds.get(error["kind"], EvaluatorUnavailable)(error["message"], error["hint"])


def private_copy(cache: Path) -> Path:
    """A folder that holds only `harness`, copied by content hash, so that nothing of ours or the user's is importable beside it."""
    source = Path(harness.__file__).parent
    files = sorted(p for p in source.rglob("*.py"))
    digest = hashlib.sha256()
    for file in files:
        digest.update(f"{file.relative_to(source)}\0".encode() + file.read_bytes())
    root = cache.resolve() / "harness" / digest.hexdigest()[:16]
    if root.is_dir():
        return root
    part = root.with_name(f"{root.name}.{os.getpid()}.part")
    shutil.rmtree(part, ignore_errors=True)
    for file in files:
        target = part / "harness" / file.relative_to(source)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, target)
    with contextlib.suppress(OSError):  # another process was faster with the same content
        part.rename(root)
    shutil.rmtree(part, ignore_errors=True)
    return root


def _has_descriptor(stream: Any) -> bool:
    try:
        return isinstance(stream.fileno(), int)
    except (AttributeError, OSError, ValueError):
        return False
