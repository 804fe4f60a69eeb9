"""One evaluation: from the store if an equal key was evaluated before, otherwise by an executor,
with retries."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from harness.types import (
    ComparisonRequest,
    Evaluation,
    EvaluationRequest,
    HeadToHead,
    Task,
    evaluation_key,
)
from kevolve_mcp import api
from kevolve_mcp.executors.base import Executor, Progress, tried
from kevolve_mcp.store import SessionRecord, StoredEvaluation

from . import attachments
from .inputs import Loaded
from .job import Location
from .shared import Shared

# an evaluation that was stopped early, below 0.96 of the best F known then, is reused while it is
# below this fraction of the best F
LEFT_BEHIND = 0.97
USUAL_PROCESSES = 3  # per candidate in a search


@dataclass(frozen=True)
class EvaluationOrder:
    """What to evaluate and where. session: the one whose budget pays, None for none. repeat:
    measure again although the answer is known, and pool the samples; so does an effort (see
    EvaluationRequest) above that of the known answer."""

    task: Task
    request: EvaluationRequest
    target: str
    executor: Executor
    session: str | None = None
    repeat: bool = False


async def known(shared: Shared, order: EvaluationOrder) -> StoredEvaluation | None:
    """Return the stored evaluation of the same key if it suffices; None without one, or while the
    evaluator's environment is not known."""
    answer = await _stored(shared, order)
    return None if answer is None or order.repeat or _missing(order, answer) else answer


def _missing(order: EvaluationOrder, answer: StoredEvaluation) -> int:
    """How many processes the requested effort needs beyond those behind a timed answer."""
    timed = any(c.speedup is not None for c in answer.evaluation.cases)
    return (
        max(0, round(USUAL_PROCESSES * order.request.effort) - api.processes(answer.evaluation))
        if timed and order.request.effort > 1
        else 0
    )


async def _stored(shared: Shared, order: EvaluationOrder) -> StoredEvaluation | None:
    request = order.request
    environment = shared.pool.environment(order.executor, order.target, request.candidate.language)
    if environment is None:
        return None
    key = evaluation_key(
        request.candidate.digest,
        order.task.digest,
        str(request.policy),
        environment,
        request.purpose,
        request.through,
    )
    store = await shared.store()
    answer = await shared.thread(store.evaluations.find, key, order.session)
    if answer is None or answer.evaluation.target != order.target:
        return None
    return answer if _went_far_enough(answer.evaluation, request.best) else None


def _went_far_enough(evaluation: Evaluation, best: float) -> bool:
    """Whether it need not be measured again: it was not stopped early, or the caller's best is as
    far ahead."""
    brief = any(signal.name == "timed_briefly" for signal in evaluation.signals)
    return not brief or (evaluation.fitness or 0.0) < LEFT_BEHIND * best


async def measure(
    shared: Shared, order: EvaluationOrder, progress: Progress
) -> StoredEvaluation | Fresh:
    """Return the `known` evaluation, else a fresh one, which is not stored yet. Raises
    EvaluatorUnavailable after the second retry."""
    await shared.pool.report(order.executor)
    answer = await known(shared, order)
    if answer is not None:
        return answer
    order = await _joined(shared, order)
    evaluation = await tried(
        lambda: order.executor.evaluate(order.task, order.request, order.target, progress=progress),
        progress,
    )
    shared.pool.saw(order.executor, evaluation)
    return Fresh(await _detached(shared, evaluation))


async def _joined(shared: Shared, order: EvaluationOrder) -> EvaluationOrder:
    """The order with the samples measured under its key before, and only the missing effort."""
    answer = await _stored(shared, order)
    if (
        answer is None
        or not (
            earlier := await shared.thread(
                attachments.load_samples, await shared.store(), answer.evaluation
            )
        ).rounds
    ):
        return order
    effort = max(1.0, _missing(order, answer) / USUAL_PROCESSES)
    return replace(order, request=replace(order.request, earlier=earlier, effort=effort))


async def _detached(shared: Shared, evaluation: Evaluation) -> Evaluation:
    """The evaluation with its long parts moved to the artifacts."""
    store = await shared.store()
    return await shared.thread(
        attachments.detach_samples,
        store,
        await shared.thread(attachments.detach_listings, store, evaluation),
    )


@dataclass(frozen=True)
class Fresh:
    """An evaluation that is not in the store yet."""

    evaluation: Evaluation


async def stored(
    shared: Shared, order: EvaluationOrder, progress: Progress
) -> tuple[StoredEvaluation, bool]:
    """Return the stored evaluation, measured if necessary, and whether it was already known."""
    measured = await measure(shared, order, progress)
    return await keep(shared, order, measured), isinstance(measured, StoredEvaluation)


async def keep(
    shared: Shared, order: EvaluationOrder, measured: StoredEvaluation | Fresh
) -> StoredEvaluation:
    """Store a fresh evaluation."""
    if isinstance(measured, StoredEvaluation):
        return measured
    store = await shared.store()
    await shared.thread(store.candidates.put, order.request.candidate)
    identifier = await shared.thread(store.evaluations.put, measured.evaluation, order.session)
    return await shared.thread(store.evaluations.get, order.session, identifier)


async def compared(
    shared: Shared,
    task: Task,
    request: ComparisonRequest,
    target: str,
    executor: Executor,
    session: str | None,
    progress: Progress,
) -> tuple[HeadToHead, tuple[tuple[str, Evaluation], ...]]:
    """Compare candidates now; return the result and each one's stored evaluation with its id.
    session: the one whose budget pays."""
    comparison = await tried(
        lambda: executor.compare(task, request, target, progress=progress), progress
    )
    store = await shared.store()
    kept = []
    for candidate, evaluation in zip(request.candidates, comparison.evaluations, strict=True):
        await shared.thread(store.candidates.put, candidate)
        detached = await _detached(shared, evaluation)
        kept.append((await shared.thread(store.evaluations.put, detached, session), detached))
    return comparison, tuple(kept)


def place(shared: Shared, record: SessionRecord, task: Task) -> tuple[Task, Executor]:
    """Return a session's task with the path of its file, and the executor that evaluates for it."""
    # an equal task may have been opened with another path
    path = record.options.path
    task = task if path is None else replace(task, path=path)
    return task, shared.pool.get(record.python, Path(task.path).parent if task.path else None)


async def opened(
    shared: Shared, where: Location, task: Loaded, progress: Progress, *, timed: bool
) -> tuple[Task, Executor]:
    """Open a task outside of any session. Raises what Executor.open_task raises."""
    executor = shared.pool.get(where.python, task.folder)
    opened_task = await executor.open_task(
        task.source, task.path, where.target, timed=timed, progress=progress
    )
    report = await shared.pool.report(executor)
    store = await shared.store()
    await shared.thread(store.tasks.put, opened_task, report.environment if timed else None)
    return opened_task, executor
