"""The executors of one service: one per interpreter, opened when first needed, closed together."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import anyio

from harness.types import Environment, Evaluation, Interpreter, MachineReport
from kevolve_mcp.executors.base import Executor

ExecutorFactory = Callable[[str, Path | None], Executor]


class Pool:
    """Executors by (python, folder near which one is looked for). Two askers of one key get the
    same executor."""

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
        """near matters only without python."""
        key = (python, "" if python or near is None else str(near))
        if key not in self._executors:
            self._executors[key] = self._factory(python, near)
        return self._executors[key]

    async def report(self, executor: Executor, *, ceilings: bool = False) -> MachineReport:
        """`describe`, asked once per executor, and once more where nobody has wanted the ceilings
        before. Raises EvaluatorUnavailable, Unavailable."""
        key = id(executor)
        wanted = self._asked.setdefault(key, anyio.Lock())
        if key in self._reports and (not ceilings or key in self._measured):
            return self._reports[key]  # while somebody measures the ceilings, too
        async with wanted:
            if key not in self._reports or (ceilings and key not in self._measured):
                self._reports[key] = await executor.describe(ceilings=ceilings)
                self._measured |= {key} if ceilings else set()
        return self._reports[key]

    def known_report(self, executor: Executor) -> MachineReport | None:
        """The report, where somebody has asked for it already."""
        return self._reports.get(id(executor))

    async def chosen(self, executor: Executor) -> Interpreter | None:
        """The interpreter that evaluates: the first usable one."""
        return next((i for i in await self.interpreters(executor) if i.usable), None)

    async def interpreters(self, executor: Executor) -> tuple[Interpreter, ...]:
        """All that were considered. Asked once per executor: each of them is started to find out
        what it has."""
        async with self._lock:
            if id(executor) not in self._interpreters:
                self._interpreters[id(executor)] = await executor.interpreters()
        return self._interpreters[id(executor)]

    def name(self, executor: Executor, python: str) -> None:
        """From now on `get(python)` answers this executor, unless another has the name."""
        self._executors.setdefault((python, ""), executor)

    def saw(self, executor: Executor, evaluation: Evaluation) -> None:
        """Remember under which environment this executor evaluates for a target and language."""
        self._seen[id(executor), evaluation.target, evaluation.language] = evaluation.environment

    def environment(self, executor: Executor, target: str, language: str) -> Environment | None:
        """What the next evaluation's environment will be, as far as it is known without asking."""
        seen = self._seen.get((id(executor), target, language))
        if seen is None and (report := self._reports.get(id(executor))) is not None:
            seen = report.environment
        return seen

    async def close(self) -> None:
        """Ends every executor, each once."""
        for executor in {id(e): e for e in self._executors.values()}.values():
            await executor.close()
        self._executors.clear()
