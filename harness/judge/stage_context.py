"""The context of an evaluation's stages: the same for all of them, and never modified."""

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
# for one case that is only compiled: host code, and every specialization and configuration that it
# launches
COMPILE_SECONDS = 180.0
# device memory beyond what checking needs: a candidate that holds less is not to blame if the judge
# runs out of memory
HELD_BYTES = 4 << 30


@dataclass(frozen=True)
class StageContext:
    """The context of one candidate's evaluation: the request, the task, and the place."""

    machine: Machine
    place: Place
    task: OpenTask
    facts: Task
    request: EvaluationRequest
    level: IsolationLevel
    language: Language
    builds: BuildService
    """Used by this evaluation alone; the caller of `begin` closes it."""
    tell: Tell
    cancel: CancelToken | None
    lock: DeviceLock
    compiled: int | None = None
    """Descriptor of what the checking worker has compiled, for later workers."""

    @property
    def confirming(self) -> bool:
        """Whether fresh pairs, every baseline and held-out cases are used; the task was opened for
        this evaluation alone."""
        return self.request.purpose in ("confirm", "export")

    @property
    def ablating(self) -> bool:
        """Whether an incorrect candidate is timed too: its time shows the cost of a part and is not
        a result."""
        return self.request.purpose == "ablation"

    @property
    def bitwise(self) -> bool:
        """Whether outputs must equal the framework's to the last bit, by the task or the policy."""
        return "bitwise" in (self.facts.tolerance, self.request.policy.tolerance)

    @property
    def cases(self) -> list[Case]:
        """The cases that are judged."""
        names = set(self.request.cases)
        return [
            c
            for c in self.facts.cases
            if (not names or c.name in names) and (self.confirming or not c.held_out)
        ]

    def between_timings(self) -> AbstractContextManager[None]:
        """Return a context in which no other judge times on the device, for the judge's own work
        there."""
        return between_timings(self.lock, self.task.family, self.cancel)

    def guard(self, where: str, worker: Worker, action: Callable[[], T]) -> T:
        """Run an action with a worker, and turn the worker's errors into a Failure."""
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
        """Return the failure of a candidate that left the judge no device memory; None for another
        error, or if the candidate holds no more than the largest case needs. If memory ran out, its
        worker is ended."""
        if not device_link.is_want_of_memory(error):
            return None
        checking_bytes = max(
            (bursts.checked_bytes(pool) for pool in self.task.pools.values()), default=0
        )
        held_bytes = device_link.freed_by_ending(worker)
        if held_bytes < HELD_BYTES + checking_bytes:
            return None
        text = (
            f"{where}: it holds {held_bytes / 2**30:.1f} GiB of the device's memory, which leaves "
            "too little to judge it"
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
    """Create the context of an evaluation, with its own build service and lock."""
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
