"""Where a kernel is measured: for a session, or for a task given with it."""

from __future__ import annotations

from dataclasses import dataclass

from harness.types import Candidate, EvaluationRequest, Policy, Purpose, Stage, Target, Task
from kevolve_mcp import api
from kevolve_mcp.errors import UsageError
from kevolve_mcp.executors.base import Executor, Progress
from kevolve_mcp.store import SessionRecord

from . import evaluating, inputs
from .evaluating import EvaluationOrder
from .job import Location, MeasureParameters, SubmitParameters
from .shared import Shared
from .types import KernelRequest

STAGES: dict[api.Depth, tuple[Purpose, Stage]] = {
    "compile": ("check", "build"),
    "check": ("check", "verify"),
    # as "submit", so that submitting what was profiled answers from the store
    "profile": ("search", "diagnose"),
    "ablation": ("ablation", "time"),
    "submit": ("search", "diagnose"),
}


@dataclass(frozen=True)
class Named:
    """The place that a request names. record: the session, None where a task was given."""

    where: Location
    language: str
    record: SessionRecord | None = None


@dataclass(frozen=True)
class EvaluationPlace:
    """A place to evaluate. session: the one whose budget pays, None for none."""

    task: Task
    executor: Executor
    target: str
    policy: Policy
    session: str | None = None


async def name(shared: Shared, request: KernelRequest) -> Named:
    """Return the place that a request names. Raises UsageError where both session and task were
    given, or neither; NotFound."""
    if not request.session_id:
        task, target = await shared.thread(inputs.load_task, request.task), request.target or "cpu"
        where = Location("", task, target, request.python)
        return Named(where, request.language or Target.parse(target).usual_language)
    if request.task:
        raise UsageError(
            "both a session and a task were given",
            "Give one of them; a session has its own task.",
        )
    store = await shared.store()
    record = await shared.thread(store.sessions.get, request.session_id)
    where = Location(record.id, target=request.target or record.target)
    return Named(where, request.language or record.language, record)


async def find(
    shared: Shared, where: Location, progress: Progress, *, timed: bool = True
) -> EvaluationPlace:
    """Return the place that a job names, opening a task outside of sessions. Raises what
    Executor.open_task raises."""
    if where.task is None:
        store = await shared.store()
        record = await shared.thread(store.sessions.get, where.session)
        return await of_session(shared, record, where.target)
    task, executor = await evaluating.opened(shared, where, where.task, progress, timed=timed)
    return EvaluationPlace(task, executor, where.target, Policy())


async def of_session(shared: Shared, record: SessionRecord, target: str = "") -> EvaluationPlace:
    """Return the place of a session. target: one that replaces the session's."""
    store = await shared.store()
    task, executor = evaluating.place(
        shared, record, await shared.thread(store.tasks.get, record.task)
    )
    return EvaluationPlace(task, executor, target or record.target, record.policy, record.id)


def order(
    place: EvaluationPlace,
    candidate: Candidate,
    p: MeasureParameters | SubmitParameters,
    best: float = 0.0,
) -> EvaluationOrder:
    """Return how to measure a candidate there. best: the standing of the best node, for a submitted
    kernel."""
    purpose, through = STAGES[p.depth if isinstance(p, MeasureParameters) else "submit"]
    request = EvaluationRequest(candidate, purpose, through, place.policy, (), best, p.effort)
    return EvaluationOrder(
        place.task, request, place.target, place.executor, place.session, p.repeat
    )
