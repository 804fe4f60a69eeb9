"""The judges on this machine: processes in the user's interpreter, one for each GPU where there are
several, and further ones per GPU during a search."""

from __future__ import annotations

import asyncio
import hashlib
from collections import defaultdict
from pathlib import Path
from typing import Any, NamedTuple

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

from .base import Executor, Progress, ProgressEvent
from .devices import Seat, Turns, alike, choose, in_flight, placed
from .interpreters import INSTALL_TORCH, find_interpreters
from .judge import JudgeProcess, start_judge
from .naming import well_named


class _Place(NamedTuple):
    """Identifies a judge of this machine. gpu: the UUID of the only GPU that it sees, "" for all
    that we see. core: see settings.timing_core."""

    gpu: str = ""
    number: int = 0
    core: int | None = None


# the judge that describes the machine and evaluates for all targets but GPUs
_MAIN = _Place()


class LocalExecutor(Executor):
    """The executor of this machine. python: the interpreter to use, or None to search. near: the
    task's file, whose .venv is considered.

    A judge does one thing at a time. With several GPUs each has its own judge, which sees only that
    GPU and is started when the others are busy; a call goes to a free one. Evaluations of a search
    go to further judges of the same GPU while the first are busy (`in_flight`): one of them times,
    the others build and check between its rounds. Confirmations and comparisons have the GPU to
    themselves. A judge that died is started again at the next call; the call during which it died
    raises EvaluatorUnavailable.
    """

    def __init__(
        self, python: str | None, cache: Path, near: Path | None = None, *, configured: str = ""
    ) -> None:
        self._python, self._cache, self._near, self._configured = python, cache, near, configured
        self._judges: dict[_Place, JudgeProcess] = {}
        # digests of the tasks that each judge has
        self._tasks: defaultdict[_Place, set[str]] = defaultdict(set)
        # calls that each judge has not answered yet
        self._promised: defaultdict[_Place, int] = defaultdict(int)
        self._turns: defaultdict[str, Turns] = defaultdict(Turns)  # of each GPU
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
        return well_named(from_json(Task, await self._placed(target, source, message, progress)))

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
        spread = task if request.purpose == "search" else None
        return from_json(
            Evaluation,
            await self._placed(
                target, task.source, message, progress, spread, alone=request.renews
            ),
        )

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
        return from_json(
            HeadToHead, await self._placed(target, task.source, message, progress, alone=True)
        )

    async def interpreters(self) -> tuple[Interpreter, ...]:
        return await asyncio.to_thread(
            find_interpreters, self._python, self._configured, self._near
        )

    async def devices(self) -> tuple[Device, ...]:
        return await asyncio.to_thread(gpus.list_devices)

    async def close(self) -> None:
        self._closed = True
        while self._judges:
            await self._judges.popitem()[1].close()

    async def _placed(
        self,
        target: str,
        source: str,
        message: dict[str, Any],
        progress: Progress | None,
        spread: Task | None = None,
        *,
        alone: bool = False,
    ) -> Any:
        """Send a call to a judge of the GPU that suits the target best now, or to the main judge.
        spread: the task of a call that several judges of a GPU may do at once. alone: the call has
        the GPU to itself."""
        there = await self.devices() if placed(target) else ()
        fitting = alike(there, target)
        if not fitting:
            return await self._call(_MAIN, message, progress)
        digest = hashlib.sha256(source.encode()).hexdigest()
        places = {
            (device, number): _place(device, number, len(there))
            for device in fitting
            for number in range(in_flight(spread, device) if spread else 1)
        }
        seat = choose([self._seat(d, key, digest) for (d, _), key in places.items()])
        key = places[seat.device, seat.number]
        turns = self._turns[key.gpu]
        self._promised[key] += 1
        try:
            if progress is not None and alone and not turns.free:
                progress(ProgressEvent("queue", "waiting until the GPU is free", 0.0))
            async with turns.alone() if alone else turns.share():
                answer = await self._call(key, message, progress)
            self._tasks[key].add(digest)
            return answer
        finally:
            self._promised[key] -= 1

    def _seat(self, device: Device, key: _Place, digest: str) -> Seat:
        judge, own = self._judges.get(key), self._promised[key]
        alive = judge is not None and judge.alive
        everyone = sum(calls for other, calls in self._promised.items() if other.gpu == key.gpu)
        known = alive and digest in self._tasks[key]
        return Seat(device, alive, own, known, everyone - own, key.number)

    async def _call(self, key: _Place, message: dict[str, Any], progress: Progress | None) -> Any:
        if self._closed:
            raise EvaluatorUnavailable("this executor is closed", "Open a new one.")
        async with self._starting:
            judge = self._judges.get(key)
            if judge is None or not judge.alive:
                self._tasks.pop(key, None)
                judge = self._judges[key] = await start_judge(
                    await self._interpreter(), self._cache, key.gpu, key.core
                )
        return await judge.call(message, progress)

    async def _interpreter(self) -> str:
        interpreters = await self.interpreters()
        chosen = next((i for i in interpreters if i.usable), None)
        if chosen is None:
            listed = "; ".join(f"{i.path} ({i.origin}): {i.reason}" for i in interpreters)
            if self._python:
                raise UsageError(
                    f"the named interpreter cannot evaluate: {listed}",
                    "Name a Python with torch, e.g. .venv/bin/python, or leave it out to have one "
                    "searched for.",
                )
            raise Unavailable(
                f"found no Python that can evaluate: {listed}",
                INSTALL_TORCH,
                Action("give", "names it for this call", setting="interpreter"),
            )
        return chosen.path


def _place(device: Device, number: int, gpus: int) -> _Place:
    """The place of a judge, by its number on its GPU and the number of GPUs. The first judge of
    each GPU uses that GPU's core."""
    core = device.index + number * gpus if number else None
    return _Place(device.uuid if gpus > 1 else "", number, core)
