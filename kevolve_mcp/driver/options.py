"""What a run is asked to do, and the arguments of session_open that say so."""

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
    """What a run is asked to do: to open a session, or to go on with one."""

    session: SessionSpec | None = None
    """What to open, by paths on the server's machine or by texts; None with `resume`."""
    resume: str = ""
    """The id of the session to go on with."""
    more: Budget = UNLIMITED
    """With `resume`: what may be spent on top of what it has spent; nothing named: its own budget
    holds."""
    parallel: int = 1
    """Asks in flight at once."""
    wait_s: float = 20.0
    """How long one call may wait for a job before it is made again."""
    contents: bool = False
    """Whether the outcome holds the package's files, too."""


def open_arguments(spec: SessionSpec) -> dict[str, Any]:
    """The arguments of session_open that say this; what is as usual is left out."""
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
    """The limits that it sets, by name."""
    return {f.name: v for f in fields(budget) if (v := getattr(budget, f.name)) is not None}


def extended(budget: Budget, spent: Spent, more: Budget) -> Budget:
    """The budget of a session that may spend `more` from now on. Evaluations and seconds are named
    together, as when a session is opened: naming one lifts the other."""
    kept = limits(budget)
    if more.evaluations is not None or more.seconds is not None:
        kept = {name: v for name, v in kept.items() if name not in ("evaluations", "seconds")}
    return Budget(
        **{**kept, **{name: getattr(spent, name) + v for name, v in limits(more).items()}}
    )


def differences(spec: SessionSpec, session: api.Session) -> str:
    """In what a joined session is not what was asked for, as a phrase; "" where it is."""
    sentences = []
    for f in fields(Budget):
        wanted, has = getattr(spec.budget, f.name), getattr(session.budget, f.name)
        if wanted != has:
            sentences.append(f"its limit of {f.name} is {'none' if has is None else f'{has:g}'}")
    if spec.search.selection and spec.search.selection != session.selection:
        sentences.append(f"its selection policy is {session.selection}")
    return ", ".join(sentences)
