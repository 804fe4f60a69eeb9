"""What an evaluation tells of held-out cases: nothing while its session can go on, or finishing
again and again would show them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from harness.types import VOCABULARY, Evaluation, Signal, StageReport, Task

if TYPE_CHECKING:
    from kevolve_mcp.store import Store, StoredEvaluation

LATER = "held-out cases are shown once the session is finished"


def visible(store: Store, stored: StoredEvaluation) -> Evaluation:
    """The evaluation as its readers may see it. Those of a search have no held-out cases; a
    confirmation shows them once its session is finished."""
    e = stored.evaluation
    if e.purpose not in ("confirm", "export"):
        return replace(e, cases=tuple(c for c in e.cases if not c.held_out))
    task = store.tasks.get(e.task)
    if not takes_part(task) or _finished(store, stored.session):
        return e
    return _veiled(e, task)


def veiled(store: Store, stored: StoredEvaluation) -> StoredEvaluation:
    """The stored one with what `visible` leaves of it."""
    return replace(stored, evaluation=visible(store, stored))


def takes_part(task: Task) -> bool:
    """Whether a confirmation of this task has something to hide."""
    return any(case.held_out for case in task.cases)


def _finished(store: Store, session: str | None) -> bool:
    return session is None or store.sessions.get(session).state == "finished"


def _veiled(e: Evaluation, task: Task) -> Evaluation:
    """Without whatever may name a held-out case, its shape or its numbers: logs and data of stages,
    the texts of signals, the message unless the fault has nothing to do with such a case."""
    shown = tuple(c for c in e.cases if not c.held_out)
    unbuilt = any(s.stage == "build" and not s.ok for s in e.stages)
    plain = unbuilt or any(not c.correct for c in shown)
    return replace(
        e,
        message=e.message if plain else f"{_said(e, task)} ({LATER})",
        cases=shown,
        signals=_signals(e, plain),
        stages=tuple(StageReport(s.stage, s.ok, s.seconds) for s in e.stages),
    )


def _said(e: Evaluation, task: Task) -> str:
    if e.status == "correct":
        return "right in every case"
    if e.status == "needs_review":
        return "right in every case, but a person should look"
    right = {c.name for c in e.cases if c.correct}
    wrong = any(not c.correct for c in e.cases if c.held_out)
    came_so_far = all(c.name in right for c in task.visible_cases)
    if wrong or (came_so_far and any(c.name not in right for c in task.cases)):
        return "a held-out case was wrong" if e.status == "incorrect" else "a held-out case failed"
    return "it failed where held-out cases take part"


def _signals(e: Evaluation, plain: bool) -> tuple[Signal, ...]:
    """In the words of the vocabulary. How the outputs of a held-out case are wrong would say where:
    all that is one signal then."""
    names = [
        "wrong.values" if s.name.startswith("wrong.") and not plain else s.name for s in e.signals
    ]
    return tuple(Signal(name, VOCABULARY[name]) for name in dict.fromkeys(names))
