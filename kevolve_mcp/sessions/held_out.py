"""What an evaluation reveals of held-out cases: nothing while its session can go on, since repeated
finishing would otherwise expose them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from harness.types import VOCABULARY, Evaluation, Signal, StageReport, Task

if TYPE_CHECKING:
    from kevolve_mcp.store import Store, StoredEvaluation

LATER = "held-out cases are shown once the session is finished"


def visible(store: Store, stored: StoredEvaluation) -> Evaluation:
    """Return the evaluation as its readers may see it. Evaluations of a search have no held-out
    cases; a confirmation shows them once its session is finished."""
    e = stored.evaluation
    if e.purpose not in ("confirm", "export"):
        return replace(e, cases=tuple(c for c in e.cases if not c.held_out))
    task = store.tasks.get(e.task)
    if not takes_part(task) or _finished(store, stored.session):
        return e
    return _veiled(e, task)


def veiled(store: Store, stored: StoredEvaluation) -> StoredEvaluation:
    """Return a stored evaluation reduced by `visible`."""
    return replace(stored, evaluation=visible(store, stored))


def takes_part(task: Task) -> bool:
    """Return whether a confirmation of this task uses held-out cases."""
    return any(case.held_out for case in task.cases)


def _finished(store: Store, session: str | None) -> bool:
    return session is None or store.sessions.get(session).state == "finished"


def _veiled(e: Evaluation, task: Task) -> Evaluation:
    """The evaluation without what may reveal a held-out case, its shape or its numbers: logs and
    data of stages, texts of signals, and the message unless it is unrelated to such a case."""
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
        return "correct in every case"
    if e.status == "needs_review":
        return "correct in every case, but a person should review it"
    right = {c.name for c in e.cases if c.correct}
    wrong = any(not c.correct for c in e.cases if c.held_out)
    came_so_far = all(c.name in right for c in task.visible_cases)
    if wrong or (came_so_far and any(c.name not in right for c in task.cases)):
        return "a held-out case was wrong" if e.status == "incorrect" else "a held-out case failed"
    return "it failed in a measurement with held-out cases"


def _signals(e: Evaluation, plain: bool) -> tuple[Signal, ...]:
    """Signals with the general texts of the vocabulary. Signals that tell how outputs are wrong
    would reveal a held-out case, so they become one signal."""
    names = [
        "wrong.values" if s.name.startswith("wrong.") and not plain else s.name for s in e.signals
    ]
    return tuple(Signal(name, VOCABULARY[name]) for name in dict.fromkeys(names))
