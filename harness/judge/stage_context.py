"""What the stages of one evaluation are given: the same for all of them, and never written to."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TypeVar

from ..languages import LANGUAGES, Language
from ..types import Case, EvaluationRequest, IsolationLevel, Signal, Task
from .device.locks import DeviceLock, between_timings
from .device.machine import Machine
from .errors import CancelToken, Interfered, WorkerDied, WorkerFailed, WorkerTimeout
from .exchange import bursts, device_link
from .failures import Failure, explain
from .processes.builds import BuildService
from .processes.runtimes import Place
from .processes.worker import Worker
from .tasks.open_task import OpenTask, Tell

T = TypeVar("T")
BUILD_SECONDS = 60.0
# for one case that is only compiled: host code, every specialization and configuration that it
# launches
COMPILE_SECONDS = 180.0
# of a device, beyond what checking takes: who holds less is not why the judge gets none
HELD_BYTES = 4 << 30


@dataclass(frozen=True)
class StageContext:
    """One candidate's evaluation: what was asked for, of which task, and where."""

    machine: Machine
    place: Place
    task: OpenTask
    facts: Task
    request: EvaluationRequest
    level: IsolationLevel
    language: Language
    builds: BuildService
    """Of this evaluation alone; whoever began it closes it."""
    tell: Tell
    cancel: CancelToken | None
    lock: DeviceLock
    compiled: int | None = None
    """Descriptor of what the checking worker has compiled, for the workers after it."""

    @property
    def confirming(self) -> bool:
        """Fresh pairs, every baseline, held-out cases; the task was opened for this alone."""
        return self.request.purpose in ("confirm", "export")

    @property
    def ablating(self) -> bool:
        """What is timed need not be right: it shows what a part costs, and is no result."""
        return self.request.purpose == "ablation"

    @property
    def bitwise(self) -> bool:
        """Whether outputs have to be the framework's to the last bit: the task's author or the
        policy says so."""
        return "bitwise" in (self.facts.tolerance, self.request.policy.tolerance)

    @property
    def cases(self) -> list[Case]:
        """Those that are judged."""
        names = set(self.request.cases)
        return [
            c
            for c in self.facts.cases
            if (not names or c.name in names) and (self.confirming or not c.held_out)
        ]

    def between_timings(self) -> AbstractContextManager[None]:
        """For what the judge does on a device that others may be timed on: a context in which they
        are not."""
        return between_timings(self.lock, self.task.family, self.cancel)

    def guard(self, where: str, worker: Worker, action: Callable[[], T]) -> T:
        """Whatever the worker does becomes a Failure."""
        try:
            return action()
        except (WorkerFailed, WorkerDied, WorkerTimeout, Interfered) as error:
            raise explain(
                error,
                where,
                worker.log(),
                worker.log_overflowed,
                self.builds.records,
                self.language,
            ) from error
        except Exception as error:
            if (failure := self.starvation_failure(where, worker, error)) is None:
                raise
            raise failure from error

    def starvation_failure(self, where: str, worker: Worker, error: Exception) -> Failure | None:
        """What a candidate is told that left the judge no memory of the device; None where
        something else went wrong, or it holds no more than what the largest case takes. Its worker
        has ended then."""
        if not device_link.is_want_of_memory(error):
            return None
        checking_bytes = max(
            (bursts.checked_bytes(pool) for pool in self.task.pools.values()), default=0
        )
        held_bytes = device_link.freed_by_ending(worker)
        if held_bytes < HELD_BYTES + checking_bytes:
            return None
        text = (
            f"{where}: it holds {held_bytes / 2**30:.1f} GiB of the device's memory, and nothing "
            "is left to judge it with"
        )
        return Failure(
            "crashed", text, (Signal("out_of_memory", text, {"held_bytes": float(held_bytes)}),)
        )


def begin(
    machine: Machine,
    place: Place,
    task: OpenTask,
    facts: Task,
    request: EvaluationRequest,
    level: IsolationLevel,
    tell: Tell,
    cancel: CancelToken | None,
) -> StageContext:
    """What every evaluation begins with: a build service and a lock of its own."""
    language, compiles = LANGUAGES[request.candidate.language], place.mode == "compile"
    seconds = COMPILE_SECONDS if compiles else BUILD_SECONDS
    rules, scratch = machine.rules(level), machine.scratch
    builds = BuildService(machine.fork_server, rules, scratch, seconds, machine.reaper, cancel)
    if request.purpose == "confirm" and place.mode == "execute" and task.family.EXTRA_FIGURES:
        machine.expect_naive(task.family, task.text.folder)
    lock = DeviceLock(place.environment.device if compiles else task.family.device_id())
    return StageContext(
        machine, place, task, facts, request, level, language, builds, tell, cancel, lock
    )
