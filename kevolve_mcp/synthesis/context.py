"""What the universal operator O sees: one text within a token budget, and the same facts as data.
Pure: no I/O.

The order is the order of use: the request, the task, the machine, the parents with their diagnosis,
what was tried before, what is known, the form of an answer. The dominant bottleneck comes first in
the diagnosis and the rest is deferred. A text that is too long is cut where it matters least, and
every cut says how to read the rest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from harness.types import (
    Budget,
    Candidate,
    CandidateError,
    Evaluation,
    Goal,
    MachineReport,
    Spent,
    Task,
)
from kevolve_mcp.actions import Say, plainly
from kevolve_mcp.search.node import Node
from kevolve_mcp.search.parameters import Searched
from kevolve_mcp.search.tree import Ask

from . import sections, shown
from .ask import AskContext, HistoryRow, ParentView, StartView, TaskFacts, short
from .layout import AskSection, assemble, estimate_tokens
from .sections import Excerpt
from .starts import SimilarStart, Start

MINIMUM_TOKENS = 400


@dataclass(frozen=True)
class Parent:
    """One parent with its text and, where it is known, its evaluation."""

    node: Node
    candidate: Candidate
    evaluation: Evaluation | None = None


@dataclass(frozen=True)
class Material:
    """Everything that a context is built from.

    history: the nodes that the memory operator shows, the correct ones best first, then the others
    newest first; elsewhere: nodes of the rest of the tree to summarize, in the same order. tried:
    all nodes that an author must not repeat (for the data; empty: `history`). searched: the results
    of parameter search. best_candidate: the text of `best`, for authors that can only vary what
    exists (data only). excerpts and similar: best first. seed: derived from the session's seed and
    the ask's seq. had: what its author was given before, key -> ask (see `shown`), None for an
    author that may not be the one of later asks, to which the text then does not refer.
    pages_again: pages among `had` that apply again. say: how the text names a call.
    """

    session: str
    ask: Ask
    task: Task
    target: str
    language: str
    goal: Goal = field(default_factory=Goal)
    budget: Budget = field(default_factory=Budget)
    spent: Spent = field(default_factory=Spent)
    seed: int = 0
    machine: MachineReport | None = None
    best: Node | None = None
    best_candidate: Candidate | None = None
    parents: tuple[Parent, ...] = ()
    history: tuple[Node, ...] = ()
    elsewhere: tuple[Node, ...] = ()
    tried: tuple[Node, ...] = ()
    searched: tuple[Searched, ...] = ()
    start: Start | None = None
    excerpts: tuple[Excerpt, ...] = ()
    similar: tuple[SimilarStart, ...] = ()
    pages_again: tuple[str, ...] = ()
    had: Mapping[str, str] | None = field(default_factory=dict)
    say: Say = plainly


@dataclass(frozen=True)
class Context:
    """What an author gets."""

    ask: AskContext
    """The data, including `text`."""
    cuts: tuple[str, ...] = ()
    """One line for each section that was shortened or dropped."""
    held: tuple[str, ...] = ()
    """Keys of the content that later asks may refer to."""

    @property
    def text(self) -> str:
        return self.ask.text

    @property
    def tokens(self) -> int:
        return estimate_tokens(self.ask.text)


def build_context(material: Material, max_tokens: int = 8000) -> Context:
    """Build a context of at most max(max_tokens, MINIMUM_TOKENS) tokens, estimated at 4 characters
    each."""
    built, limit = _sections(material), max(max_tokens, MINIMUM_TOKENS)
    if material.had is None:
        whole = assemble(built, limit)
        return Context(replace(ask_data(material), text=whole.text), whole.cuts)
    longest = estimate_tokens(shown.line(s.key for s in built if s.key)) + 1
    kept = assemble(built, limit - longest)
    last = shown.line(kept.held)
    return Context(
        replace(ask_data(material), text=kept.text + (f"\n\n{last}" if last else "")),
        kept.cuts,
        kept.held,
    )


def ask_data(material: Material) -> AskContext:
    """Return the data without the text. Sources that the text only refers to are left out here as
    well."""
    m = material
    had = m.had or {}
    return AskContext(
        session=m.session,
        id=m.ask.id,
        role=m.ask.role,
        memory=m.ask.memory,
        target=m.target,
        language=m.language,
        task=replace(TaskFacts.of(m.task), source="") if "task" in had else TaskFacts.of(m.task),
        seed=m.seed,
        parents=tuple(_without(_view(p), had) for p in m.parents),
        history=tuple(_row(n) for n in m.tried or m.history),
        start=StartView(m.start.candidate.source, str(m.start.origin), m.start.note)
        if m.start
        else None,
        best=_without(_view(Parent(m.best, m.best_candidate)), had)
        if m.best and m.best_candidate
        else None,
        goal=str(m.goal),
    )


def _view(parent: Parent) -> ParentView:
    node, candidate = parent.node, parent.candidate
    try:
        params, tunables = candidate.params(), candidate.tunables()
    # an invalid parent may not even parse; its text is to be repaired
    except CandidateError:
        params, tunables = {}, {}
    return ParentView(
        node.id,
        candidate.source,
        node.status,
        node.fitness,
        node.signals,
        params,
        tunables,
        short(node.structure),
        str(node.origin) if node.origin else None,
    )


def _without(view: ParentView, had: Mapping[str, str]) -> ParentView:
    return replace(view, source="") if shown.source_key(view.id) in had else view


def _row(node: Node) -> HistoryRow:
    # the text has the whole, where the memory operator shows the node
    hypothesis = node.hypothesis[:80]
    return HistoryRow(
        node.id,
        node.status,
        node.fitness,
        dict(node.params),
        short(node.structure),
        hypothesis,
        short(node.candidate),
    )


def _sections(m: Material) -> list[AskSection]:
    """The sections in the order of use; what the author was given before is only referred to."""
    built: list[AskSection | None] = [
        sections.task(m.task),
        sections.machine(m.machine, m.target, m.say),
    ]
    for index, parent in enumerate(m.parents):
        built.append(sections.diagnosis(parent.node, parent.evaluation, m.session, m.say))
        built.append(
            sections.source(parent.node, parent.candidate, m.session, m.say, first=index == 0)
        )
    built.append(sections.start_source(m.start))
    built.append(sections.history(m.history, m.elsewhere, m.ask, m.session, m.say))
    built.extend(sections.excerpt(e, rank, m.say) for rank, e in enumerate(m.excerpts))
    built.extend(sections.similar(kernel, rank, m.say) for rank, kernel in enumerate(m.similar))
    built.append(sections.rules(m.language, m.say))
    had, present = m.had or {}, [s for s in built if s is not None]
    first = sections.request(
        m.session,
        m.ask,
        m.goal,
        m.budget,
        m.spent,
        m.best,
        m.start,
        m.target,
        m.language,
        m.searched,
    )
    rest = [
        shown.references(
            [s for s in present if s.key in had], m.pages_again, had, m.session, m.say
        ),
        sections.answer(m.ask, m.session, bool(m.parents), m.say),
    ]
    return [first, *(s for s in present if s.key not in had), *(s for s in rest if s is not None)]


__all__ = [
    "MINIMUM_TOKENS",
    "AskContext",
    "Context",
    "Excerpt",
    "Material",
    "Parent",
    "ask_data",
    "build_context",
    "estimate_tokens",
]
