"""The requests to the sessions floor, built by a tool or a command. The answers are values of
`kevolve_mcp.api`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from harness.types import Budget, Goal, Policy


@dataclass(frozen=True)
class Text:
    """A file's content: `path` (absolute, on this machine) or `source`, not both. Messages name the
    `path`."""

    path: str = ""
    source: str = ""

    def __bool__(self) -> bool:
        return bool(self.path or self.source)


@dataclass(frozen=True)
class SearchOptions:
    """How a session searches."""

    selection: str = ""
    """The selection policy's name; empty for the default one."""
    skills: bool = True
    """Whether skills provide starts."""
    seed: int | None = None
    """The seed of the search's random choices; None derives it from the session's id."""
    # of the values that Meta's engineers measured, this kept the variety and most of the gain
    inject: float = 0.1
    """The probability that an ask shows a kernel of a similar task."""
    tune: float = 0.2
    """The share of the budget for searching parameters while authors write."""


@dataclass(frozen=True)
class SessionSpec:
    """The specification of a session, built by a tool or a command and passed on as a whole."""

    task: Text
    target: str = "cpu"
    language: str = ""
    """The language of candidates; empty for the target's usual one."""
    goal: Goal = field(default_factory=Goal)
    budget: Budget = field(default_factory=Budget)
    start: Text = field(default_factory=Text)
    """A kernel to start from; empty for the one beside the task, if any."""
    python: str = ""
    """The interpreter that evaluates; empty to look for one near the task."""
    policy: Policy = field(default_factory=Policy)
    """What candidates may do."""
    search: SearchOptions = field(default_factory=SearchOptions)
    new: bool = False
    """Whether to open another session even if an equal one is open."""


@dataclass(frozen=True)
class KernelRequest:
    """One kernel outside a tree. With `session_id` the session's task, target, language, policy and
    interpreter are used. repeat: measure again and pool with earlier samples. effort: a multiple of
    the usual number of processes, 1 to MOST_EFFORT."""

    kernel: Text
    session_id: str = ""
    task: Text = field(default_factory=Text)
    target: str = ""
    language: str = ""
    python: str = ""
    repeat: bool = False
    effort: float = 1.0


@dataclass(frozen=True)
class CompareRequest(KernelRequest):
    """Kernels to compare, outside a tree. kernel: the one that the others are compared with; empty
    for the first of `against`. against: ids of nodes of the session, or kernels. effort: a multiple
    of the usual time for undecided pairs."""

    against: tuple[str | Text, ...] = ()


@dataclass(frozen=True)
class SubmitRequest:
    """A candidate submitted to a session. Without a kernel, the ask must be a start, which is
    evaluated. tokens, usd: what the author says it used. author: who submits it, as in `next`.
    repeat, effort: as in KernelRequest; an existing node then gets the figures of all samples."""

    session_id: str
    kernel: Text = field(default_factory=Text)
    ask_id: str = ""
    parents: tuple[str, ...] = ()
    hypothesis: str = ""
    predicted_speedup: float | None = None
    rationale: str = ""
    tokens: int = 0
    usd: float = 0.0
    author: str = ""
    repeat: bool = False
    effort: float = 1.0


@dataclass(frozen=True)
class FinishRequest:
    session_id: str
    node_id: str = ""
    include_files: bool = False
    discard: bool = False


@dataclass(frozen=True)
class SkillRequest:
    """A proposal of a skill. parent_id: "n0" is the baseline; the effect is then the child's own
    speed-up. code: the few lines of the node that show the change; default: the difference of the
    pair. pattern: the tasks that it fits; default: derived from the session's task."""

    session_id: str
    node_id: str
    parent_id: str = ""
    title: str = ""
    mechanism: str = ""
    preconditions: str = ""
    counter_indications: str = ""
    code: str = ""
    pattern: dict[str, Any] = field(default_factory=dict)
