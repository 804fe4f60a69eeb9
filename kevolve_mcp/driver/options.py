"""What a run is asked to do, and the arguments of session_open that say so."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

from harness.types import Budget

from .answers import UNLIMITED, SessionFacts


@dataclass(frozen=True)
class Options:
    """task_path/start_path: absolute on the server's machine; task_source/start_source: the texts instead. goal: as Goal.parse takes it. policy: what session_open takes
    under `policy`. resume: a session's id; then everything that describes a session is taken from it and ignored here.
    new: open another session even where an equal one is open. jobs: asks in flight at once. wait_s: how long one call may
    wait for a job before it is made again. contents: the outcome holds the package's files, too."""

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
    jobs: int = 1
    wait_s: float = 20.0
    task_source: str = ""
    start_source: str = ""
    contents: bool = False

    def open_arguments(self) -> dict[str, Any]:
        """The arguments of session_open; what was not said is left out, so that the server's defaults hold."""
        said: dict[str, Any] = {
            "task_path": self.task_path,
            "task_source": self.task_source,
            "target": self.target,
            "language": self.language,
            "goal": self.goal,
            "budget": {f.name: v for f in fields(self.budget) if (v := getattr(self.budget, f.name)) is not None},
            "start_path": self.start_path,
            "start_source": self.start_source,
            "python": self.python,
            "policy": self.policy,
            "new": self.new,
        }
        return {name: value for name, value in said.items() if value not in ("", {}, False)}


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
