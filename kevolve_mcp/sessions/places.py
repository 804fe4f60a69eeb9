"""Where a kernel is measured: for a session, or for a task that was handed in with it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

from harness.types import Candidate, EvaluationRequest, Policy, Purpose, Stage, Target, Task
from kevolve_mcp.errors import UsageError
from kevolve_mcp.executors.base import Executor, Progress
from kevolve_mcp.store import SessionRecord

from . import evaluating, inputs
from .evaluating import Order
from .shared import Shared
from .types import Depth, KernelRequest

STAGES: dict[Depth, tuple[Purpose, Stage]] = {
    "compile": ("check", "build"),
    "check": ("check", "verify"),
    # as "submit", so that submitting what was profiled answers from the store
    "profile": ("search", "diagnose"),
    "ablation": ("ablation", "time"),
    "submit": ("search", "diagnose"),
}


@dataclass(frozen=True)
class Named:
    """What a request names. payload: the part of a job's payload that `find` reads. record: the
    session, None where a task was given."""

    payload: dict[str, Any]
    language: str
    record: SessionRecord | None = None


@dataclass(frozen=True)
class Place:
    """session: who pays, None for nobody."""

    task: Task
    executor: Executor
    target: str
    policy: Policy
    session: str | None = None


async def name(shared: Shared, request: KernelRequest) -> Named:
    """Raises UsageError where both session and task were given, or neither; NotFound."""
    if not request.session_id:
        task, target = await shared.thread(inputs.load_task, request.task), request.target or "cpu"
        payload = {
            "source": task.source,
            "path": task.path,
            "target": target,
            "python": request.python,
        }
        return Named(payload, request.language or Target.parse(target).usual_language)
    if request.task:
        raise UsageError(
            "both a session and a task were given",
            "Give one of them; the session has its task.",
        )
    store = await shared.store()
    record = await shared.thread(store.sessions.get, request.session_id)
    payload = {"session": record.id, "target": request.target or record.target}
    return Named(payload, request.language or record.language, record)


def same(*parts: object) -> str:
    """Equal for calls that ask for the same; see `Jobs.start`."""
    return hashlib.sha256("\0".join(map(str, parts)).encode()).hexdigest()


async def find(
    shared: Shared, payload: dict[str, Any], progress: Progress, *, timed: bool = True
) -> Place:
    """The place that a job's payload names; a task outside of a session is opened for it. Raises
    what Executor.open_task raises."""
    if "session" in payload:
        store = await shared.store()
        record = await shared.thread(store.sessions.get, payload["session"])
        return await of_session(shared, record, payload.get("target", ""))
    task, executor = await evaluating.opened(shared, payload, progress, timed=timed)
    return Place(task, executor, payload["target"], Policy())


async def of_session(shared: Shared, record: SessionRecord, target: str = "") -> Place:
    """target: another one than the session's."""
    store = await shared.store()
    task, executor = evaluating.place(
        shared, record, await shared.thread(store.tasks.get, record.task)
    )
    return Place(task, executor, target or record.target, record.policy, record.id)


def order(place: Place, candidate: Candidate, p: dict[str, Any], best: float = 0.0) -> Order:
    """How a candidate is measured there. p: a job's payload; one that an earlier release started
    lacks some of it. best: F of the best node, for a kernel that is told."""
    purpose, through = STAGES[p["depth"]]
    effort = float(p.get("effort", 1.0))
    request = EvaluationRequest(candidate, purpose, through, place.policy, (), best, effort)
    return Order(
        place.task, request, place.target, place.executor, place.session, bool(p.get("repeat"))
    )
