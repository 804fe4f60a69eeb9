"""How a judge is reached: the interface between a session and an evaluator. A failure of the
evaluator says nothing about the candidate, so the call is retried twice."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Self, TypeVar

import anyio

from harness.types import (
    ComparisonRequest,
    Device,
    Evaluation,
    EvaluationRequest,
    HeadToHead,
    Interpreter,
    MachineReport,
    Task,
)
from kevolve_mcp.errors import EvaluatorUnavailable


@dataclass(frozen=True)
class ProgressEvent:
    """Progress of a call. stage: "queue", "open", "build", "verify", "time" …; message: for a
    person, without the stage.

    fraction: the part of the whole call that is done, 0 to 1; it never decreases within a call.
    """

    stage: str
    message: str
    fraction: float


Progress = Callable[[ProgressEvent], None]


class Executor(ABC):
    """Access to one judge: on this machine, another machine or a cluster.

    Ownership. An async context manager: nothing is started before the first call that needs it,
    `close` (or leaving the context) ends every process and connection the executor started. After
    `close` every call raises `EvaluatorUnavailable`.

    Concurrency. Every method may be awaited by many tasks of one event loop at once. An
    implementation queues what its device can only do one at a time and says so through `progress`
    (stage "queue"). `progress` is called on the event loop, must not block, and is not called after
    the method has returned.

    Cancellation. Cancelling the task that awaits `open_task`, `evaluate` or `compare` ends that
    work and kills the processes that did it before the cancellation leaves the method; other calls
    in flight are not disturbed.

    Failure. What a candidate does wrong is an `Evaluation` with that status. `EvaluatorUnavailable`
    means that the evaluator itself failed (device lost, judge killed, disk full) and nothing is
    known about the candidate; the caller may try again. `TaskRefused` means that the task's text
    must be fixed. `Unavailable` means that this machine lacks what the call needs.

    Resume. An executor remembers nothing that matters: after a crash of either side a new one
    answers the same calls. The same (candidate, task, policy, purpose, through) on the same machine
    has the same evaluation key.

    Units: seconds, microseconds where a name ends in `_us`, bytes.
    """

    @abstractmethod
    async def describe(self, *, ceilings: bool = False) -> MachineReport:
        """Describe what this machine can do, and why not the rest. `ceilings` also measures the
        device (seconds, once per machine)."""

    @abstractmethod
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
        """Import the reference in a worker, examine it, and (if `timed`) time its baselines once.

        Without `timed` it takes a second or two, enough for a check, instead of the tens of seconds
        that compiling baselines takes. An executor may answer from what it remembers of an equal
        task, unless `fresh` is set. source: the task file's text; path: its file ("" when it was
        given as text), for held-out companions and messages. Raises TaskRefused with the line and
        the fix, Unavailable, EvaluatorUnavailable.
        """

    @abstractmethod
    async def evaluate(
        self,
        task: Task,
        request: EvaluationRequest,
        target: str,
        *,
        progress: Progress | None = None,
    ) -> Evaluation:
        """Run the request's stages in order and stop at the first that fails. Raises
        EvaluatorUnavailable, Unavailable."""

    @abstractmethod
    async def compare(
        self,
        task: Task,
        request: ComparisonRequest,
        target: str,
        *,
        progress: Progress | None = None,
    ) -> HeadToHead:
        """Build and verify several candidates, and time the correct ones in the same rounds. Raises
        as `evaluate` does."""

    @abstractmethod
    async def interpreters(self) -> tuple[Interpreter, ...]:
        """Return every Python considered for evaluating, in order of preference, with the reason
        for or against it."""

    async def devices(self) -> tuple[Device, ...]:
        """Return the GPUs that evaluations may use and what runs on them now, without queueing
        behind evaluations. By default there are none."""
        return ()

    @abstractmethod
    async def close(self) -> None:
        """End everything the executor started. Calling it again does nothing."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()


T = TypeVar("T")
RETRIES = 2
PAUSE_S = 0.2  # before the first retry, doubled for the second

log = logging.getLogger(__name__)


async def tried(ask: Callable[[], Awaitable[T]], progress: Progress) -> T:
    """Make a call, and retry it when the evaluator fails.

    Args:
        ask: One call of an executor.
        progress: Takes a message before each retry.

    Raises:
        EvaluatorUnavailable: The second retry failed, too.
    """
    for attempt in range(RETRIES):
        try:
            return await ask()
        except EvaluatorUnavailable as error:
            log.warning("the evaluator failed (%s); trying again", error)
            said = f"the evaluator failed, trying again: {error.message}"
            progress(ProgressEvent("queue", said, 0.0))
        await anyio.sleep(PAUSE_S * 2**attempt)
    return await ask()
