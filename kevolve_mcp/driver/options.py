"""The options of a run, and the arguments of session_open made from them."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from harness.types import Budget, Policy, Spent
from kevolve_mcp import api

from .answers import UNLIMITED

if TYPE_CHECKING:
    from kevolve_mcp.sessions.types import SearchOptions, SessionSpec


@dataclass(frozen=True)
class Options:
    """The options of a run: which session to open or to resume, and how."""

    session: SessionSpec | None = None
    """The session to open, by paths on the server's machine or by texts; None with `resume`."""
    resume: str = ""
    """The id of the session to go on with."""
    more: Budget = UNLIMITED
    """With `resume`: what the session may spend beyond what it has spent; without limits its own
    budget holds."""
    parallel: int = 1
    """The number of asks in flight at once."""
    wait_s: float = 20.0
    """How long one call may wait for a job before it is repeated."""
    contents: bool = False
    """Whether the outcome includes the package's files."""


def open_arguments(spec: SessionSpec) -> dict[str, Any]:
    """Return the arguments of session_open for a spec, without defaults."""
    said: dict[str, Any] = {
        "task_path": spec.task.path,
        "task_source": spec.task.source,
        "target": spec.target,
        "language": spec.language,
        "goal": str(spec.goal),
        "budget": limits(spec.budget),
        "start_path": spec.start.path,
        "start_source": spec.start.source,
        "python": spec.python,
        "policy": _unusual(spec.policy) | _unusual(spec.search),
        "new": spec.new,
    }
    return {name: value for name, value in said.items() if value not in ("", {}, False)}


def _unusual(options: Policy | SearchOptions) -> dict[str, Any]:
    """The fields that differ from their defaults."""
    return {
        f.name: value for f in fields(options) if (value := getattr(options, f.name)) != f.default
    }


def limits(budget: Budget) -> dict[str, Any]:
    """Return the limits of a budget by name."""
    return {f.name: v for f in fields(budget) if (v := getattr(budget, f.name)) is not None}


def extended(budget: Budget, spent: Spent, more: Budget) -> Budget:
    """Return the budget of a session that may spend `more` from now on. Evaluations and seconds
    belong together, as when a session is opened: setting only one lifts the other."""
    kept = limits(budget)
    if more.evaluations is not None or more.seconds is not None:
        kept = {name: v for name, v in kept.items() if name not in ("evaluations", "seconds")}
    return Budget(
        **{**kept, **{name: getattr(spent, name) + v for name, v in limits(more).items()}}
    )


def differences(spec: SessionSpec, session: api.Session) -> str:
    """Return how a joined session differs from the request, as a phrase; "" for no difference."""
    sentences = []
    for f in fields(Budget):
        wanted, has = getattr(spec.budget, f.name), getattr(session.budget, f.name)
        if wanted != has:
            sentences.append(f"its limit of {f.name} is {'none' if has is None else f'{has:g}'}")
    if spec.search.selection and spec.search.selection != session.selection:
        sentences.append(f"its selection policy is {session.selection}")
    return ", ".join(sentences)
