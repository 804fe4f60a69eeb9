"""What goes into the sessions floor and what comes out: frozen dataclasses that
`harness.types.to_json` turns into JSON.

The MCP server answers with exactly these shapes as structured content, and with those of
`kevolve_mcp.api` inside them, so a field that changes here changes an API.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from harness.types import (
    Budget,
    Ceilings,
    Goal,
    Interpreter,
    Policy,
    TargetReport,
)
from kevolve_mcp import api
from kevolve_mcp.actions import Action
from kevolve_mcp.synthesis.ask import AskContext

JobState = Literal["running", "done", "failed", "cancelled", "lost"]
JobKind = Literal[
    "open", "compile", "check", "profile", "ablation", "submit", "compare", "tune", "finish"
]


# requests -----------------------------------------------------------------------------------------


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


# answers ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ErrorView:
    code: str
    message: str
    hint: str = ""
    actions: tuple[Action, ...] = ()
    retryable: bool = False


@dataclass(frozen=True)
class MachineView:
    """device: as evaluations carry it. about: the processor in words; ceilings: what was measured
    of it. missing: what would enable more, one sentence each. isolation: level -> "available" or
    the reason why not. devices: the GPUs, one sentence each, as they are now."""

    device: str = ""
    about: str = ""
    ceilings: Ceilings | None = None
    toolchain: str = ""
    isolation_level: str = ""
    isolation: dict[str, str] = field(default_factory=dict)
    targets: tuple[TargetReport, ...] = ()
    interpreters: tuple[Interpreter, ...] = ()
    missing: tuple[str, ...] = ()
    home: str = ""
    devices: tuple[str, ...] = ()


@dataclass(frozen=True)
class JobView:
    """A background job. `id` is "" when the store answered at once. eta_s: an estimate of the
    seconds left.

    queue: how many of this server's evaluations run or wait before it. error: why it failed. left:
    of its session's budget, None where the session is over or has none.
    """

    id: str
    kind: JobKind
    state: JobState
    session_id: str = ""
    stage: str = ""
    message: str = ""
    fraction: float = 0.0
    eta_s: float | None = None
    queue: int = 0
    created: float = 0.0
    finished: float | None = None
    result: api.Opened | api.Evaluated | api.Compared | api.Tuned | api.Finished | None = None
    error: ErrorView | None = None
    left: api.Left | None = None


@dataclass(frozen=True)
class AskView:
    """One request for a next candidate. context: what authors get as data, its `text` the universal
    operator's context.

    knowledge: page ids worth reading. answered_by: the node that answered it, "" while it is open.
    lease_until: seconds of the epoch after which the ask may be given to somebody else. repeated:
    it was open already.
    """

    context: AskContext
    knowledge: tuple[str, ...] = ()
    answered_by: str = ""
    lease_until: float = 0.0
    repeated: bool = False


@dataclass(frozen=True)
class AskBatch:
    """What to write next. ended: why the search should stop ("" while it goes on); then `asks` is
    empty."""

    session: api.Session
    asks: tuple[AskView, ...] = ()
    ended: str = ""
    ended_detail: str = ""
