"""The judge with the small task open."""

from __future__ import annotations

import os
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pytest

from harness.judge.processes.worker import Worker
from harness.native import find_compiler
from harness.types import Candidate, Evaluation, EvaluationRequest, Policy, Purpose, Stage, Task
from harness.wire import memory_files
from kevolve_mcp.executors import Executor
from kevolve_mcp.executors.testing import OpenJudge

T = TypeVar("T")
CANDIDATES = Path(__file__).parents[1] / "data" / "candidates"


@dataclass
class Bench:
    """A judge with the small task open, driven from synchronous tests."""

    run: Callable[[Coroutine[Any, Any, T]], T]
    executor: Executor
    task: Task

    def evaluate(
        self,
        source: str,
        through: Stage = "verify",
        purpose: Purpose = "check",
        policy: Policy | None = None,
    ) -> Evaluation:
        """Judge a text against the small task."""
        request = EvaluationRequest(Candidate(source, "cpp"), purpose, through, policy or Policy())
        return self.run(self.executor.evaluate(self.task, request, "cpu"))


def load(worker: Worker, text: str) -> None:
    """Run a text as a candidate's module, and end the worker. Raises what the worker answers."""
    source = memory_files.from_bytes("source", text.encode())
    try:
        worker.ask("load", [source], seconds=20)
    finally:
        os.close(source)
        worker.close()


@pytest.fixture(scope="session")
def bench(judge: OpenJudge) -> Bench:
    if find_compiler() is None:
        pytest.skip("no C++ compiler on this machine")
    path = CANDIDATES / "task.py"
    task = judge.run(judge.executor.open_task(path.read_text(), str(path), "cpu", timed=False))
    return Bench(judge.run, judge.executor, task)


@pytest.fixture(scope="session")
def correct() -> str:
    return (CANDIDATES / "correct.py").read_text()
