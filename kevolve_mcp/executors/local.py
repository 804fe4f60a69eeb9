"""The judges on this machine: processes in the interpreter of the user's choice, one for each GPU
where there are several."""

from __future__ import annotations

import asyncio
import hashlib
from collections import defaultdict
from pathlib import Path
from typing import Any

from harness.judge.device import gpus
from harness.types import (
    ComparisonRequest,
    Device,
    Evaluation,
    EvaluationRequest,
    HeadToHead,
    Interpreter,
    MachineReport,
    Task,
    from_json,
    to_json,
)
from kevolve_mcp.actions import Action
from kevolve_mcp.errors import EvaluatorUnavailable, Unavailable, UsageError

from .base import Executor, Progress
from .devices import Seat, alike, choose, placed
from .interpreters import find_interpreters
from .judge import JudgeProcess, start_judge

# the judge that sees what we see: it describes the machine and evaluates for everything but several
# GPUs
_MAIN = ""


class LocalExecutor(Executor):
    """python: the interpreter asked for, or None to search. near: the task's file, whose .venv is
    considered.

    A judge works on one thing at a time. With several GPUs each has a judge of its own that sees it
    alone, started when the others are busy; a call goes to the one that is free. A judge that died
    is started again at the next call; the call during which it died raises EvaluatorUnavailable.
    """

    def __init__(
        self, python: str | None, cache: Path, near: Path | None = None, *, configured: str = ""
    ) -> None:
        self._python, self._cache, self._near, self._configured = python, cache, near, configured
        self._judges: dict[str, JudgeProcess] = {}
        # GPU -> digests of the tasks that its judge was given
        self._tasks: defaultdict[str, set[str]] = defaultdict(set)
        # GPU -> calls that its judge has not answered yet
        self._promised: defaultdict[str, int] = defaultdict(int)
        self._starting = asyncio.Lock()
        self._closed = False

    async def describe(self, *, ceilings: bool = False) -> MachineReport:
        return from_json(
            MachineReport, await self._call(_MAIN, {"op": "describe", "ceilings": ceilings}, None)
        )

    async def open_task(
        self,
        source: str,
        path: str,
        target: str,
        *,
        timed: bool = True,
        fresh: bool = False,
        progress: Progress | None = None,
    ) -> Task:
        message = {
            "op": "open_task",
            "source": source,
            "path": path,
            "target": target,
            "timed": timed,
            "fresh": fresh,
        }
        return from_json(Task, await self._placed(target, source, message, progress))

    async def evaluate(
        self,
        task: Task,
        request: EvaluationRequest,
        target: str,
        *,
        progress: Progress | None = None,
    ) -> Evaluation:
        message = {
            "op": "evaluate",
            "task": to_json(task),
            "request": to_json(request),
            "target": target,
        }
        return from_json(Evaluation, await self._placed(target, task.source, message, progress))

    async def compare(
        self,
        task: Task,
        request: ComparisonRequest,
        target: str,
        *,
        progress: Progress | None = None,
    ) -> HeadToHead:
        message = {
            "op": "compare",
            "task": to_json(task),
            "request": to_json(request),
            "target": target,
        }
        return from_json(HeadToHead, await self._placed(target, task.source, message, progress))

    async def interpreters(self) -> tuple[Interpreter, ...]:
        return await asyncio.to_thread(
            find_interpreters, self._python, self._configured, self._near
        )

    async def devices(self) -> tuple[Device, ...]:
        return await asyncio.to_thread(gpus.listed)

    async def close(self) -> None:
        self._closed = True
        while self._judges:
            await self._judges.popitem()[1].close()

    async def _placed(
        self, target: str, source: str, message: dict[str, Any], progress: Progress | None
    ) -> Any:
        """To the judge of the GPU that suits the target best now, or to the main one."""
        there = await self.devices() if placed(target) else ()
        fitting = alike(there, target)
        if len(there) < 2 or not fitting:
            return await self._call(_MAIN, message, progress)
        digest = hashlib.sha256(source.encode()).hexdigest()
        gpu = choose([self._seat(device, digest) for device in fitting]).device.uuid
        self._promised[gpu] += 1
        try:
            answer = await self._call(gpu, message, progress)
            self._tasks[gpu].add(digest)
            return answer
        finally:
            self._promised[gpu] -= 1

    def _seat(self, device: Device, digest: str) -> Seat:
        judge = self._judges.get(device.uuid)
        alive = judge is not None and judge.alive
        return Seat(
            device, alive, self._promised[device.uuid], alive and digest in self._tasks[device.uuid]
        )

    async def _call(self, gpu: str, message: dict[str, Any], progress: Progress | None) -> Any:
        if self._closed:
            raise EvaluatorUnavailable("this executor is closed", "Open a new one.")
        async with self._starting:
            judge = self._judges.get(gpu)
            if judge is None or not judge.alive:
                self._tasks.pop(gpu, None)
                judge = self._judges[gpu] = await start_judge(
                    await self._interpreter(), self._cache, gpu
                )
        return await judge.call(message, progress)

    async def _interpreter(self) -> str:
        found = await self.interpreters()
        chosen = next((i for i in found if i.usable), None)
        if chosen is None:
            listed = "; ".join(f"{i.path} ({i.origin}): {i.reason}" for i in found)
            if self._python:
                raise UsageError(
                    f"the interpreter that was named cannot evaluate: {listed}",
                    "Name a Python that has torch, e.g. .venv/bin/python, or leave it out: one is "
                    "then looked for.",
                )
            raise Unavailable(
                f"no Python that can evaluate was found: {listed}",
                "Install torch (pip install torch) in one of them, or name another by "
                "KEVOLVE_PYTHON.",
                Action("give", "names it for this call", setting="interpreter"),
            )
        return chosen.path
