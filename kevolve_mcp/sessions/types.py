"""What goes into the sessions floor: requests, built where a caller says them, by a tool or a
command. What comes out is a value of `kevolve_mcp.api`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from harness.types import Budget, Goal, Policy


@dataclass(frozen=True)
class Text:
    """A file's content: `path` (absolute, on this machine) or `source`, not both. `path` wins its
    name for messages."""

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
    """Whether skills lend starts."""
    seed: int | None = None
    """Of the search's random choices; None derives it from the session's id."""
    # kept the variety of the search and most of the gain, of those that Meta's engineers measured
    inject: float = 0.1
    """The probability that an ask shows a kernel of a similar task."""
    tune: float = 0.2
    """The share of the budget in which parameters are searched while authors think."""


@dataclass(frozen=True)
class SessionSpec:
    """What a session is to be: built where a caller says it, by a tool or a command, and passed
    whole."""

    task: Text
    target: str = "cpu"
    language: str = ""
    """What candidates are written in; empty for the target's usual one."""
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
    """Open another session even where an equal one is open."""


@dataclass(frozen=True)
class KernelRequest:
    """One kernel outside a tree. With `session_id` the session's task, target, language, policy and
    interpreter are taken. repeat: measure it again, and join what was measured before. effort:
    times the usual number of processes, 1 to MOST_EFFORT."""

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
    """Kernels against each other, outside a tree. kernel: the one that the others are held against;
    empty: the first of `against`. against: the id of a node of the session, or a kernel. effort:
    times the usual time for pairs that are not decided."""

    against: tuple[str | Text, ...] = ()


@dataclass(frozen=True)
class SubmitRequest:
    """A candidate told to a session. Without kernel, the ask must be a start: then the start itself
    is evaluated. tokens, usd: what its author used, as the author says. author: who hands it in, as
    in `next`. repeat, effort: as in KernelRequest; of a node that is there, its figures become
    those of all samples."""

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
    """parent_id "n0" means the baseline: then the effect is the child's speed-up itself. code: the
    least lines of the node that show the change; the difference of the pair unless given. pattern:
    of the tasks that it fits, derived from the session's task unless given."""

    session_id: str
    node_id: str
    parent_id: str = ""
    title: str = ""
    mechanism: str = ""
    preconditions: str = ""
    counter_indications: str = ""
    code: str = ""
    pattern: dict[str, Any] = field(default_factory=dict)
