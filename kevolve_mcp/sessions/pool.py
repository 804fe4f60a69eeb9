"""The executors of one service: one per interpreter, opened when first needed, closed together."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import anyio

from harness.types import Environment, Evaluation, Interpreter, MachineReport
from kevolve_mcp.executors.base import Executor

ExecutorFactory = Callable[[str, Path | None], Executor]


class Pool:
    """Executors by (python, folder near which to look for one); equal keys share an executor."""

    def __init__(self, factory: ExecutorFactory) -> None:
        self._factory = factory
        self._executors: dict[tuple[str, str], Executor] = {}
        self._reports: dict[int, MachineReport] = {}
        self._interpreters: dict[int, tuple[Interpreter, ...]] = {}
        self._seen: dict[tuple[int, str, str], Environment] = {}
        self._lock = anyio.Lock()
        self._asked: dict[int, anyio.Lock] = {}  # by executor: one description at a time
        self._measured: set[int] = set()  # executors whose ceilings were asked for

    def get(self, python: str = "", near: Path | None = None) -> Executor:
        """Return the executor of a key. near: only used without python."""
        key = (python, "" if python or near is None else str(near))
        if key not in self._executors:
            self._executors[key] = self._factory(python, near)
        return self._executors[key]

    async def report(self, executor: Executor, *, ceilings: bool = False) -> MachineReport:
        """Return the answer of `describe`, which is called once per executor, and once more for the
        first request of ceilings. Raises EvaluatorUnavailable, Unavailable."""
        key = id(executor)
        wanted = self._asked.setdefault(key, anyio.Lock())
        if key in self._reports and (not ceilings or key in self._measured):
            return self._reports[key]  # also while ceilings are being measured
        async with wanted:
            if key not in self._reports or (ceilings and key not in self._measured):
                self._reports[key] = await executor.describe(ceilings=ceilings)
                self._measured |= {key} if ceilings else set()
        return self._reports[key]

    def known_report(self, executor: Executor) -> MachineReport | None:
        """Return the report, if it was requested before."""
        return self._reports.get(id(executor))

    async def chosen(self, executor: Executor) -> Interpreter | None:
        """Return the interpreter that evaluates: the first usable one."""
        return next((i for i in await self.interpreters(executor) if i.usable), None)

    async def interpreters(self, executor: Executor) -> tuple[Interpreter, ...]:
        """Return all interpreters considered. Asked once per executor, since each is started to
        examine it."""
        async with self._lock:
            if id(executor) not in self._interpreters:
                self._interpreters[id(executor)] = await executor.interpreters()
        return self._interpreters[id(executor)]

    def name(self, executor: Executor, python: str) -> None:
        """Let `get(python)` return this executor from now on, unless another has the name."""
        self._executors.setdefault((python, ""), executor)

    def saw(self, executor: Executor, evaluation: Evaluation) -> None:
        """Remember the environment in which this executor evaluates for a target and language."""
        self._seen[id(executor), evaluation.target, evaluation.language] = evaluation.environment

    def environment(self, executor: Executor, target: str, language: str) -> Environment | None:
        """Return the environment of the next evaluation, if it is known."""
        seen = self._seen.get((id(executor), target, language))
        if seen is None and (report := self._reports.get(id(executor))) is not None:
            seen = report.environment
        return seen

    async def close(self) -> None:
        """Close every executor once."""
        for executor in {id(e): e for e in self._executors.values()}.values():
            await executor.close()
        self._executors.clear()
