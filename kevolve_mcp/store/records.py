"""The values of the store, besides the types of `harness.types` and `kevolve_mcp.search`.

Times are seconds since the epoch. `New…` values go in; the store returns the value completed with
id and state. Dicts are stored as JSON: tuples inside them come back as lists.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from harness.types import Budget, Candidate, CaseResult, Evaluation, Goal, Policy, Spent, Task
from kevolve_mcp.search.node import Meeting, Node, Role
from kevolve_mcp.search.provenance import NOBODY, AuthorId, Origin
from kevolve_mcp.search.tree import Ask, Expansion

from .remembered import SessionOptions, SessionOutcome

SessionState = Literal["open", "finished", "abandoned"]
JobState = Literal["running", "done", "failed", "cancelled", "lost"]
SkillState = Literal["proposed", "accepted", "contradicted", "retired"]
# which place of the evaluation budget a node takes: that of its job, one that no job reserves, or
# one that neither a job nor an open ask reserves
BudgetPlace = Literal["held", "free", "left_over"]
SkillUseKind = Literal["start", "named", "shown"]


@dataclass(frozen=True, kw_only=True)
class NewSession:
    """A session to create. task: digest of a task that was put before. selection: the policy's
    name. seed: with an ask's seq the source of all randomness. python: the interpreter that
    evaluates."""

    task: str
    target: str
    language: str
    goal: Goal = field(default_factory=Goal)
    budget: Budget = field(default_factory=Budget)
    policy: Policy = field(default_factory=Policy)
    selection: str = "greedy"
    seed: int = 0
    python: str = ""
    options: SessionOptions = field(default_factory=SessionOptions)


@dataclass(frozen=True, kw_only=True)
class SessionRecord(NewSession):
    """A stored session. id: "rmsnorm-7f3a", the task's name and four hex digits. outcome: that of a
    finished session."""

    id: str
    state: SessionState = "open"
    created: float = 0.0
    finished: float | None = None
    reason: str = ""
    outcome: SessionOutcome | None = None


@dataclass(frozen=True)
class SessionSummary:
    """One line of a session list. best: the best node of the session's tree, None without one."""

    session: SessionRecord
    task_name: str
    nodes: int
    best: str | None
    best_fitness: float | None


@dataclass(frozen=True)
class NewAsk:
    """An ask to add. shown: the text given to the author, kept as an artifact. skills: page ids of
    the skills in it. held: keys of its full contents, see `synthesis.shown`."""

    expansion: Expansion
    shown: str
    skills: tuple[str, ...] = ()
    held: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class NewNode:
    """A node to add. candidate: digest of a candidate that was put before. evaluation: a new one,
    stored with the node, or the id of a stored one. ask: the seq that this node answers. parents:
    node ids; the root may be given or left out. tokens, usd: what the author spent on the proposal.
    skills: page id of a skill -> how this node used it."""

    candidate: str
    evaluation: Evaluation | str
    parents: tuple[str, ...] = ()
    ask: int | None = None
    role: Role = "improve"
    author: AuthorId = NOBODY
    origin: Origin | None = None
    hypothesis: str = ""
    predicted_speedup: float | None = None
    rationale: str = ""
    annotations: dict[str, Any] = field(default_factory=dict)
    met: Meeting | None = None
    params: dict[str, Any] = field(default_factory=dict)
    structure: str = ""
    tokens: int = 0
    usd: float = 0.0
    skills: dict[str, SkillUseKind] = field(default_factory=dict)


@dataclass(frozen=True)
class Approval:
    """A person's approval: that a node may be exported, or that the signals under review are
    acceptable."""

    node: str
    author: str
    note: str
    created: float


@dataclass(frozen=True)
class StoredEvaluation:
    """A stored evaluation. id: its id in the session that asked, see `evaluation_ids`. session: the
    one that paid for it, None for none."""

    id: str
    session: str | None
    created: float
    evaluation: Evaluation


@dataclass(frozen=True)
class Measured:
    """What a tree needs of a node's evaluation. seconds: its duration; device_seconds: how long it
    held the device."""

    target: str
    seconds: float
    device_seconds: float
    cases: tuple[CaseResult, ...]


@dataclass(frozen=True)
class SimilarKernel:
    """The best eligible node of an earlier session. similarity: 0..1, as `Signature.similarity`.
    confirmed: the fitness confirmed at the end of its session in fresh processes, None without."""

    task: Task
    session: str
    node: Node
    candidate: Candidate
    target: str
    device: str
    similarity: float
    confirmed: float | None = None

    @property
    def fitness(self) -> float:
        """Return the confirmed figure, else that of the search."""
        return self.node.score if self.confirmed is None else self.confirmed


@dataclass(frozen=True)
class Owner:
    """A process, distinguishable after its pid is reused. host: name, boot and pid namespace.
    started: clock ticks since boot (field 22 of /proc/PID/stat), 0 where the system has no
    /proc."""

    host: str
    pid: int
    started: int


@dataclass(frozen=True)
class JobRecord:
    """A job. id: "j12". attempts: how often it was started; above 1 after its owner died.
    cancel_requested: whether the owner should stop. error: the form of KEvolveError.as_dict()."""

    id: str
    kind: str
    session: str | None
    payload: dict[str, Any]
    state: JobState
    owner: Owner
    created: float
    heartbeat: float
    finished: float | None = None
    progress: dict[str, Any] = field(default_factory=dict)
    result: dict[str, Any] | None = None
    error: dict[str, Any] | None = None
    attempts: int = 1
    cancel_requested: bool = False

    @property
    def over(self) -> bool:
        """Return whether it has ended for good; a lost job has not."""
        return self.state in ("done", "failed", "cancelled")


@dataclass(frozen=True)
class Measuring:
    """A job that reserves a place of its session's budget. ask: the seq of the ask that it
    answers."""

    job: str
    ask: int | None = None


@dataclass(frozen=True)
class Demand:
    """The demand on a session's budget. measuring: jobs whose nodes do not exist yet. waiting: asks
    without a node whose lease has not expired."""

    spent: Spent
    measuring: tuple[Measuring, ...] = ()
    waiting: tuple[Ask, ...] = ()

    @property
    def asks_measured(self) -> frozenset[int]:
        """Return the seqs of the asks whose answers are being measured."""
        return frozenset(each.ask for each in self.measuring if each.ask is not None)


@dataclass(frozen=True, kw_only=True)
class NewSkill:
    """A skill to propose. mechanism: why it is faster. preconditions, counter_indications: when it
    applies, and when not. code: the few lines that show it. matches: the pattern of tasks that it
    fits, as in a skill's front matter. files: text by relative path (kernels and kernel templates).
    signals: the findings that it addresses."""

    title: str
    mechanism: str
    preconditions: str = ""
    counter_indications: str = ""
    code: str = ""
    matches: dict[str, Any] = field(default_factory=dict)
    target: str = ""
    language: str = ""
    signals: tuple[str, ...] = ()
    files: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class SkillRecord(NewSkill):
    """A stored skill. id: a readable slug of the title, unique in the store."""

    id: str
    state: SkillState = "proposed"
    created: float = 0.0


@dataclass(frozen=True)
class SkillEvidence:
    """One measured use. parent: the node that it is compared with, None for the baseline. effect:
    fitness of the node over fitness of that one; interval: its 95 % interval where known.
    predicted: the effect that the node's author predicted. origin: "" if measured in this store,
    else where it comes from."""

    session: str
    node: str
    parent: str | None
    task: str
    device: str
    effect: float
    interval: tuple[float, float] | None = None
    evaluation: str = ""
    parent_evaluation: str = ""
    note: str = ""
    predicted: float | None = None
    origin: str = ""


@dataclass(frozen=True)
class SkillEvent:
    """One line of a skill's history. kind: "proposed", "evidence", "imported", or a state that it
    moved to."""

    skill: str
    seq: int
    kind: str
    message: str
    author: str
    created: float
    data: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class SkillUse:
    """A node that used a skill. skill: the id of its page. how: "start" (the kernel came from it),
    "named" (its author says so), or "shown" (it was in the ask that the node answers)."""

    skill: str
    session: str
    node: str
    how: SkillUseKind


@dataclass(frozen=True)
class SkillOutcome:
    """The outcome of a skill in one session: its best use there. effect, interval: against the
    parent, or the baseline; None where it was not proved correct or not timed. created: seconds
    since the epoch. task: the session's digest; author: the node's; both filled in by the store."""

    skill: str
    session: str
    node: str
    status: str
    effect: float | None = None
    interval: tuple[float, float] | None = None
    created: float = 0.0
    task: str = ""
    author: str = ""
