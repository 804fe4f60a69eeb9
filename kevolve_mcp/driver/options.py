"""What a run is asked to do, and the arguments of session_open that say so."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

from harness.types import Budget, Spent

from .answers import UNLIMITED, SessionFacts


@dataclass(frozen=True)
class Options:
    """task_path/start_path: absolute on the server's machine; task_source/start_source: the texts
    instead. goal: as Goal.parse takes it. policy: what session_open takes under `policy`. resume: a
    session's id; then what describes a session is taken from it, and `budget` is what it may spend
    on top of what it has spent (nothing named: its own budget holds).
    new: open another session even where an equal one is open. parallel: asks in flight at once.
    wait_s: how long one call may wait for a job before it is made again. contents: the outcome
    holds the package's files, too."""

    task_path: str = ""
    start_path: str = ""
    target: str = "cpu"
    language: str = "cpp"
    goal: str = "best"
    budget: Budget = UNLIMITED
    python: str = ""
    policy: dict[str, Any] = field(default_factory=dict)
    resume: str = ""
    new: bool = False
    parallel: int = 1
    wait_s: float = 20.0
    task_source: str = ""
    start_source: str = ""
    contents: bool = False

    def open_arguments(self) -> dict[str, Any]:
        """The arguments of session_open; what was not said is left out, so that the server's
        defaults hold."""
        said: dict[str, Any] = {
            "task_path": self.task_path,
            "task_source": self.task_source,
            "target": self.target,
            "language": self.language,
            "goal": self.goal,
            "budget": limits(self.budget),
            "start_path": self.start_path,
            "start_source": self.start_source,
            "python": self.python,
            "policy": self.policy,
            "new": self.new,
        }
        return {name: value for name, value in said.items() if value not in ("", {}, False)}


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


def differences(options: Options, session: SessionFacts) -> str:
    """In what a joined session is not what was asked for, as a phrase; "" where it is."""
    found = []
    for f in fields(Budget):
        asked, has = getattr(options.budget, f.name), getattr(session.budget, f.name)
        if asked != has:
            found.append(f"its limit of {f.name} is {'none' if has is None else f'{has:g}'}")
    selection = options.policy.get("selection")
    if selection and selection != session.selection:
        found.append(f"its selection policy is {session.selection}")
    return ", ".join(found)
