"""One real judge for the whole folder: starting it and opening the task cost seconds."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import pytest

from harness.native import find_compiler
from harness.types import Candidate, Evaluation, EvaluationRequest, Policy, Purpose, Stage, Task
from kevolve_mcp.executors import LocalExecutor

T = TypeVar("T")
CANDIDATES = Path(__file__).parents[1] / "data" / "candidates"


@dataclass
class Bench:
    """A judge with the small task open, driven from synchronous tests."""

    run: Callable[[Awaitable[T]], T]
    executor: LocalExecutor
    task: Task

    def evaluate(
        self, source: str, until: Stage = "verify", purpose: Purpose = "check", policy: Policy | None = None
    ) -> Evaluation:
        """Judge a text against the small task."""
        request = EvaluationRequest(Candidate(source, "cpp"), purpose, until, policy or Policy())
        return self.run(self.executor.evaluate(self.task, request, "cpu"))


@pytest.fixture(scope="session")
def bench(judge_cache: Path) -> Iterator[Bench]:
    if find_compiler() is None:
        pytest.skip("no C++ compiler on this machine")
    with asyncio.Runner() as runner:
        executor = LocalExecutor(None, judge_cache)
        path = CANDIDATES / "task.py"
        task = runner.run(executor.open_task(path.read_text(), str(path), "cpu", timed=False))
        yield Bench(runner.run, executor, task)
        runner.run(executor.close())


@pytest.fixture(scope="session")
def correct() -> str:
    return (CANDIDATES / "correct.py").read_text()
