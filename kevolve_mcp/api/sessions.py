"""One session and its asks as every surface shows them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from harness.types import Budget, Evaluation, Spent, Task, to_json
from kevolve_mcp import search
from kevolve_mcp.search import Tree, interval
from kevolve_mcp.synthesis.ask import AskContext

from .nodes import Node, best

if TYPE_CHECKING:
    from kevolve_mcp.store import SessionRecord, SimilarFound


@dataclass(frozen=True)
class TaskCase:
    """A case of a task, as measured when the session was opened."""

    name: str
    weight: float = 1.0
    protected: bool = False
    """Whether a candidate must not be slower on it."""
    inputs: tuple[str, ...] = ()
    """Shapes and dtypes as text."""
    baselines_us: dict[str, float] = field(default_factory=dict)
    """Screening medians of the baselines, in microseconds."""
    roofline_time_us: float = 0.0
    """The shortest time that the measured ceiling allows."""


@dataclass(frozen=True)
class Similar:
    """The best kernel for a similar task, or for the same task, in an earlier session."""

    task: str
    session: str
    node: str
    target: str
    language: str
    device: str
    similarity: float
    """0 to 1."""
    fitness: float
    """F over the strongest baseline of that session."""
    confirmed: bool = False
    """Whether the re-validation of its session confirmed it."""
    same_task: bool = False
    differs: str = ""
    """How its conditions differ from the requested ones, "" where they are the same."""


@dataclass(frozen=True)
class Exported:
    """The exported node of a session, and its package's F as a user calls it."""

    node: str
    fitness: float | None = None
    interval: tuple[float, float] | None = None


@dataclass(frozen=True)
class Left:
    """What an open session may still spend; null for what has no limit."""

    evaluations: int | None = None
    seconds: float | None = None
    """Seconds of wall clock."""
    device_seconds: float | None = None
    tokens: int | None = None
    usd: float | None = None
    """US dollars."""


@dataclass(frozen=True)
class Session:
    """The current state of a session."""

    id: str
    state: str
    """ "opening", "open", "finished" or "abandoned"."""
    task: str
    """The task's name."""
    target: str
    language: str
    goal: str
    selection: str = ""
    """The selection policy's name."""
    budget: Budget = field(default_factory=Budget)
    spent: Spent = field(default_factory=Spent)
    nodes: int = 0
    correct: int = 0
    """The number of nodes proved correct."""
    open_asks: int = 0
    waiting_starts: int = 0
    best: Node | None = None
    """The best eligible node; null without one, e.g. where each correct node regresses a protected
    case."""
    exported: Exported | None = None
    """Its exported node, null before it is finished."""
    cases: tuple[TaskCase, ...] = ()
    baselines: tuple[str, ...] = ()
    tolerance: str = "default"
    python: str = ""
    """The interpreter that evaluates."""
    policy: str = ""
    """What candidates may do."""
    notes: tuple[str, ...] = ()
    created: float = 0.0
    """Seconds of the epoch."""
    finished: float | None = None
    reason: str = ""
    """Why it ended."""
    similar: tuple[Similar, ...] = ()
    """Kernels of similar tasks that were known when it was opened."""
    inject: float = 0.0
    """The probability that an ask shows such a kernel."""
    tune: float = 0.0
    """The share of the budget for searching parameters while authors write."""


def session(
    record: SessionRecord,
    task: Task,
    tree: Tree,
    spent: Spent,
    *,
    open_asks: int = 0,
    waiting_starts: int = 0,
    exported: Exported | None = None,
) -> Session:
    """Show the current state of a session."""
    return Session(
        id=record.id,
        state=record.state,
        task=task.name,
        target=record.target,
        language=record.language,
        goal=str(record.goal),
        selection=record.selection,
        budget=record.budget,
        spent=spent,
        nodes=len(tree.nodes),
        correct=sum(n.status == "correct" for n in tree.nodes),
        open_asks=open_asks,
        waiting_starts=waiting_starts,
        best=best(tree),
        exported=exported,
        cases=tuple(
            TaskCase(
                c.name,
                c.weight,
                c.protected,
                tuple(map(str, c.inputs)),
                dict(c.baselines_us),
                c.roofline_time_us,
            )
            for c in task.visible_cases
        ),
        baselines=task.baselines,
        tolerance=task.tolerance,
        python=record.python,
        policy=str(record.policy),
        notes=(*task.notes, *record.options.notes),
        created=record.created,
        finished=record.finished,
        reason=record.reason,
        similar=tuple(map(similar, record.options.similar)),
        inject=record.options.inject,
        tune=record.options.tune,
    )


def left(budget: Budget, spent: Spent) -> Left | None:
    """Show what is left of a budget, None for one without limits."""

    def rest(limit: float | None, used: float) -> float | None:
        return None if limit is None else max(0.0, limit - used)

    def whole(limit: int | None, used: int) -> int | None:
        return None if limit is None else max(0, limit - used)

    remaining = Left(
        whole(budget.evaluations, spent.evaluations),
        rest(budget.seconds, spent.seconds),
        rest(budget.device_seconds, spent.device_seconds),
        whole(budget.tokens, spent.tokens),
        rest(budget.usd, spent.usd),
    )
    return None if remaining == Left() else remaining


def similar(domain: SimilarFound) -> Similar:
    """Show a kernel of a similar task."""
    return Similar(
        task=domain.task,
        session=domain.session,
        node=domain.node,
        target=domain.target,
        language=domain.language,
        device=domain.device,
        similarity=domain.similarity,
        fitness=domain.fitness,
        confirmed=domain.confirmed,
        same_task=domain.same_task,
        differs=domain.differs,
    )


def exported(node: str, measured: Evaluation) -> Exported:
    """Show the exported node of a session."""
    return Exported(node, measured.fitness, interval(measured.cases))


@dataclass(frozen=True)
class Ask:
    """One request for a next candidate."""

    context: AskContext
    """What authors get as data; its `text` is the context that the universal operator composed."""
    knowledge: tuple[str, ...] = ()
    """Ids of pages worth reading."""
    answered_by: str = ""
    """The node that answered it, "" while it is open."""
    lease_until: float = 0.0
    """Seconds of the epoch after which it may be given to another author."""
    repeated: bool = False
    """Whether its author had been given it before."""

    def as_json(self) -> dict[str, Any]:
        """Return it as structured content, without the context's text, which is in the answer's
        text."""
        data: dict[str, Any] = to_json(self)
        data["context"] = self.context.as_json()
        return data


@dataclass(frozen=True)
class AskBatch:
    """The asks for what to write next, or why the search should stop."""

    session: Session
    asks: tuple[Ask, ...] = ()
    """The asks; none once the search has ended."""
    ended: str = ""
    """Why the search should stop, "" while it goes on."""
    ended_detail: str = ""
    """The same as a sentence."""


def ask(tree: Tree, domain: search.Ask, context: AskContext, knowledge: tuple[str, ...]) -> Ask:
    """Show an ask.

    Args:
        tree: The current tree, whose nodes say whether the ask is answered.
        domain: The domain's value.
        context: The context composed for its author.
        knowledge: Ids of the pages chosen for it.
    """
    answers = [n.id for n in tree.nodes if n.ask == domain.seq]
    return Ask(context, knowledge, ", ".join(answers), domain.lease_until)
