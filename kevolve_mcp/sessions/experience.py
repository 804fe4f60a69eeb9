"""Kernels from earlier sessions of similar tasks: listed when a session is opened, used as starts,
and shown in some asks."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

from harness.types import Task
from kevolve_mcp.search import Expansion, LentKernel
from kevolve_mcp.store import SessionRecord, SimilarFound, SimilarKernel, Store
from kevolve_mcp.synthesis import SimilarStart

NAMED = 5  # listed when a session is opened
LENT = 2  # used as starts
AMONG = 5  # candidates from which an ask shows one
# roles that never show a foreign kernel: starts, and parameters of one kernel
ALONE = ("start", "tune")


def named(
    kernels: Sequence[SimilarKernel], task: Task, target: str, language: str
) -> tuple[SimilarFound, ...]:
    """Return the kernels as callers see them, the most similar first."""
    views = (_brief(kernel, task, target, language) for kernel in kernels)
    return tuple(
        sorted(
            views,
            key=lambda v: (-v.similarity, v.target != target, v.language != language, -v.fitness),
        )
    )


def lent(kernel: SimilarKernel) -> SimilarStart:
    """Return a kernel as starts and contexts take it."""
    place = f"{kernel.session} {kernel.node.id}"
    return SimilarStart(
        kernel.task.name,
        kernel.candidate,
        kernel.fitness,
        place,
        kernel.target,
        kernel.device,
        kernel.similarity,
    )


def inspired(
    store: Store, record: SessionRecord, task: Task, expansion: Expansion, seq: int
) -> Expansion:
    """Return the expansion for the ask of this seq, with a kernel of a similar task added with the
    probability of the session's option `inject`.

    The draw depends only on the session's seed, the ask's seq and the results of other sessions
    when this one was created, so an ask that is made again after a crash is the same. More similar
    tasks are drawn more often.
    """
    chance = record.options.inject
    source = random.Random(f"{record.seed}:{seq}:injected")
    if expansion.role in ALONE or source.random() >= chance:
        return expansion
    kernels = store.similar(
        task,
        record.target,
        record.language,
        AMONG,
        exclude_session=record.id,
        before=record.created,
    )
    if not kernels:
        return expansion
    chosen = source.choices(kernels, [kernel.similarity for kernel in kernels])[0]
    lent = LentKernel(chosen.session, chosen.node.id, round(chosen.similarity, 3))
    return replace(expansion, lent=lent)


def shown(store: Store, expansion: Expansion) -> tuple[SimilarStart, ...]:
    """Return the kernel that an ask shows, with its figures when it was chosen; () for none."""
    if (lent := expansion.lent) is None:
        return ()
    node = store.nodes.get(lent.session, lent.node)
    session = store.sessions.get(lent.session)
    device = store.evaluations.get(session.id, node.evaluation).evaluation.environment.device
    task = store.tasks.get(session.task)
    place = f"{session.id} {node.id}"
    return (
        SimilarStart(
            task.name,
            store.candidates.get(node.candidate),
            node.score,
            place,
            session.target,
            device,
            lent.similarity,
        ),
    )


def _brief(kernel: SimilarKernel, task: Task, target: str, language: str) -> SimilarFound:
    other = [f"target {kernel.target}"] if kernel.target != target else []
    other += (
        [f"language {kernel.candidate.language}"] if kernel.candidate.language != language else []
    )
    if kernel.task.digest != task.digest and _data(kernel.task) != _data(task):
        other.append(f"data {'; '.join(_data(kernel.task))}")
    return SimilarFound(
        task=kernel.task.name,
        session=kernel.session,
        node=kernel.node.id,
        target=kernel.target,
        language=kernel.candidate.language,
        device=kernel.device,
        similarity=round(kernel.similarity, 3),
        fitness=kernel.fitness,
        confirmed=kernel.confirmed is not None,
        same_task=kernel.task.digest == task.digest,
        differs=", ".join(other),
    )


def _data(task: Task) -> list[str]:
    """Shapes and dtypes, by case."""
    return [", ".join(map(str, case.inputs)) for case in task.visible_cases]
