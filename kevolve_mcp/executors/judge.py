"""One judge process: started in the user's interpreter, driven by JSON lines, ended by closing its
stdin."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import harness
from harness.judge.process_environment import JUDGE_ENVIRONMENT, evaluator_digest
from harness.settings import TIMING_CORE
from kevolve_mcp.actions import Action
from kevolve_mcp.errors import EvaluatorUnavailable, KEvolveError, TaskRefused, Unavailable

from .base import Progress, ProgressEvent

_LINE_BYTES = 256 << 20  # a task's text and logs are sent in one line


async def start_judge(
    python: str, cache: Path, gpu: str = "", core: int | None = None
) -> JudgeProcess:
    """Start a judge.

    Args:
        python: The interpreter that runs it.
        cache: The folder for builds and the judge's files.
        gpu: The UUID of the only GPU that it sees; "" for all that we see.
        core: See settings.timing_core.

    Raises:
        Unavailable: It cannot be started.
    """
    root = await asyncio.to_thread(_writable_copy, cache)
    code = (
        f"import sys; sys.path.insert(0, {str(root)!r}); from harness.judge.main import main; "
        f"main({str(cache.resolve())!r})"
    )
    process = await asyncio.create_subprocess_exec(
        python,
        "-I",
        "-c",
        code,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=sys.stderr if _has_descriptor(sys.stderr) else asyncio.subprocess.DEVNULL,
        env={**os.environ, **JUDGE_ENVIRONMENT, **_placed(gpu, core)},
        limit=_LINE_BYTES,
        start_new_session=True,  # Ctrl-C in a terminal is ours to handle
    )
    return JudgeProcess(process)


def _placed(gpu: str, core: int | None) -> dict[str, str]:
    chosen = {"CUDA_VISIBLE_DEVICES": gpu} if gpu else {}
    return chosen if core is None else {**chosen, TIMING_CORE: str(core)}


def _writable_copy(cache: Path) -> Path:
    try:
        root = private_copy(cache)
        with tempfile.TemporaryFile(dir=cache):
            return root
    except OSError as error:
        raise Unavailable(
            f"the cache folder {cache} cannot be written: {error.strerror}",
            "It holds builds and the judge's files; set KEVOLVE_CACHE to a writable folder.",
        ) from error


class JudgeProcess:
    """A running judge and its calls in flight."""

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
            progress(
                ProgressEvent(
                    "queue", f"waiting for {len(self._calls)} evaluation(s) before this one", 0.0
                )
            )
        self._calls[number] = (answer, progress)
        try:
            await self._send({"id": number, **message})
            return await asyncio.shield(answer)
        except asyncio.CancelledError:
            self._calls[number] = (answer, None)
            with contextlib.suppress(EvaluatorUnavailable, KEvolveError):
                await self._send({"op": "cancel", "id": number})
                # when the judge answers, its processes are dead
                await asyncio.wait([answer], timeout=20)
            raise
        finally:
            self._calls.pop(number, None)
            if answer.done() and not answer.cancelled():
                answer.exception()  # retrieved, or asyncio would report it as never retrieved

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
                        "the judge process ended unexpectedly",
                        "The call can be repeated; a new judge is started.",
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
    message, hint = error["message"], error["hint"]
    if error["kind"] == "unavailable":
        return Unavailable(message, hint, Action("describe_targets", "lists what is here"))
    return (TaskRefused if error["kind"] == "task_refused" else EvaluatorUnavailable)(message, hint)


def private_copy(cache: Path) -> Path:
    """Return a folder that holds only `harness`, copied by content hash, so that no other package
    of ours or the user's can be imported from it."""
    source = Path(harness.__file__).parent
    root = cache.resolve() / "harness" / evaluator_digest(source)[:16]
    if root.is_dir():
        return root
    part = root.with_name(f"{root.name}.{os.getpid()}.part")
    shutil.rmtree(part, ignore_errors=True)
    for file in source.rglob("*.py"):
        target = part / "harness" / file.relative_to(source)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, target)
    with contextlib.suppress(OSError):  # another process already made the same copy
        part.rename(root)
    shutil.rmtree(part, ignore_errors=True)
    return root


def _has_descriptor(stream: Any) -> bool:
    try:
        return isinstance(stream.fileno(), int)
    except (AttributeError, OSError, ValueError):
        return False
