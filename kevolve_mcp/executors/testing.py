"""The contract of `Executor` as tests: inherit, provide an executor and the texts, run with pytest.

class TestMine(ExecutorConformance):
    def texts(self): return Texts(task=..., correct=..., incorrect=..., slow=..., refused=...)
    def executor(self): return MyExecutor()
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import anyio
import pytest

from harness.types import Candidate, ComparisonRequest, Evaluation, EvaluationRequest, Stage, Task
from kevolve_mcp.errors import EvaluatorUnavailable, TaskRefused

from .base import Executor, ProgressEvent

T = TypeVar("T")


@dataclass(frozen=True)
class Texts:
    """Sources for the tests. task: a task; refused: a task that must be refused. correct,
    incorrect, slow: candidates; slow must take longer than a second. language: the candidates'."""

    task: str
    refused: str
    correct: str
    incorrect: str
    slow: str
    language: str = "cpp"
    target: str = "cpu"


@dataclass(frozen=True)
class OpenJudge:
    """An executor, and a function that runs a coroutine in its event loop."""

    run: Callable[[Coroutine[Any, Any, T]], T]
    executor: Executor


class ExecutorConformance(ABC):
    """The conformance tests. They share one executor, used as a server uses it, except tests that
    need a fresh one."""

    @abstractmethod
    def executor(self) -> Executor:
        """A fresh executor."""

    @abstractmethod
    def texts(self) -> Texts:
        """What to feed it."""

    @pytest.fixture(scope="class")
    @classmethod
    def opened(cls) -> Iterator[OpenJudge]:
        """One executor and its event loop, for all tests of the class."""
        with asyncio.Runner() as runner:
            executor = cls().executor()
            yield OpenJudge(runner.run, executor)
            runner.run(executor.close())

    def test_describes_itself(self, opened: OpenJudge) -> None:
        async def body(executor: Executor) -> None:
            report = await executor.describe()
            assert any(t.mode == "execute" for t in report.targets)
            assert any(i.usable for i in await executor.interpreters())
            devices = await executor.devices()
            assert len({d.uuid for d in devices}) == len(devices)

        opened.run(body(opened.executor))

    def test_refuses_a_task_with_a_hint(self, opened: OpenJudge) -> None:
        async def body(executor: Executor) -> None:
            with pytest.raises(TaskRefused) as refusal:
                await executor.open_task(self.texts().refused, "", self.texts().target)
            assert refusal.value.message
            assert refusal.value.hint

        opened.run(body(opened.executor))

    def test_evaluates_and_tells_progress(self, opened: OpenJudge) -> None:
        async def body(executor: Executor) -> None:
            events: list[ProgressEvent] = []
            task = await executor.open_task(
                self.texts().task, "", self.texts().target, progress=events.append
            )
            assert task.cases
            assert events
            seen = len(events)
            request = self._request(self.texts().correct, through="diagnose")
            evaluation = await executor.evaluate(
                task, request, self.texts().target, progress=events.append
            )
            assert (evaluation.status, evaluation.candidate) == (
                "correct",
                request.candidate.digest,
            )
            assert evaluation.task == task.digest
            fractions = [e.fraction for e in events[seen:]]
            assert fractions == sorted(fractions)
            assert all(0 <= f <= 1 for f in fractions)

        opened.run(body(opened.executor))

    def test_a_wrong_candidate_is_an_evaluation(self, opened: OpenJudge) -> None:
        async def body(executor: Executor) -> None:
            task = await self._task(executor)
            evaluation = await executor.evaluate(
                task, self._request(self.texts().incorrect), self.texts().target
            )
            assert evaluation.status != "correct"
            assert evaluation.fitness == 0.0
            assert evaluation.signals
            assert evaluation.message

        opened.run(body(opened.executor))

    def test_the_same_question_has_the_same_key(self, opened: OpenJudge) -> None:
        async def key(executor: Executor) -> str:
            task = await self._task(executor)
            return (
                await executor.evaluate(
                    task, self._request(self.texts().incorrect), self.texts().target
                )
            ).key

        async def of_another() -> str:
            async with self.executor() as executor:
                return await key(executor)

        assert opened.run(key(opened.executor)) == opened.run(of_another())

    def test_compares_only_what_is_right(self, opened: OpenJudge) -> None:
        async def body(executor: Executor) -> None:
            task = await self._task(executor)
            texts = (
                self.texts().incorrect,
                self.texts().correct,
                f"{self.texts().correct}\n# the same again\n",
            )
            case = task.visible_cases[0].name
            candidates = tuple(Candidate(text, self.texts().language) for text in texts)
            request = ComparisonRequest(candidates, cases=(case,))
            comparison = await executor.compare(task, request, self.texts().target)
            assert [e.candidate for e in comparison.evaluations] == [
                c.digest for c in request.candidates
            ]
            assert [e.status == "correct" for e in comparison.evaluations] == [False, True, True]
            assert [(d.first, d.second) for d in comparison.duels] == [(2, 1)]
            (duel,) = comparison.duels
            assert duel.interval[0] <= duel.ratio <= duel.interval[1]
            assert [c.name for c in duel.cases] == [case]

        opened.run(body(opened.executor))

    def test_concurrent_calls_do_not_mix(self, opened: OpenJudge) -> None:
        async def body(executor: Executor) -> None:
            evaluations: dict[str, Evaluation] = {}
            task = await self._task(executor)

            async def one(source: str) -> None:
                evaluations[source] = await executor.evaluate(
                    task, self._request(source), self.texts().target
                )

            async with anyio.create_task_group() as group:
                group.start_soon(one, self.texts().correct)
                group.start_soon(one, self.texts().incorrect)
            assert evaluations[self.texts().correct].status == "correct"
            assert evaluations[self.texts().incorrect].status != "correct"

        opened.run(body(opened.executor))

    def test_cancellation_ends_the_work_only_of_its_call(self, opened: OpenJudge) -> None:
        async def body(executor: Executor) -> None:
            task = await self._task(executor)
            with anyio.move_on_after(0.2) as scope:
                await executor.evaluate(task, self._request(self.texts().slow), self.texts().target)
            assert scope.cancelled_caught
            after = await executor.evaluate(
                task, self._request(self.texts().correct), self.texts().target
            )
            assert after.status == "correct"

        opened.run(body(opened.executor))

    def test_closed_means_unavailable(self, opened: OpenJudge) -> None:
        async def body(executor: Executor) -> None:
            await executor.close()
            await executor.close()
            with pytest.raises(EvaluatorUnavailable):
                await executor.describe()

        opened.run(body(self.executor()))

    async def _task(self, executor: Executor) -> Task:
        return await executor.open_task(self.texts().task, "", self.texts().target, timed=False)

    def _request(self, source: str, through: Stage = "verify") -> EvaluationRequest:
        return EvaluationRequest(Candidate(source, self.texts().language), through=through)
