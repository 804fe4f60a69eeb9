"""The next kernel to evaluate while an author writes: a start that nobody has taken, then a setting
of parameter search."""

from __future__ import annotations

from dataclasses import dataclass

from kevolve_mcp.errors import Conflict
from kevolve_mcp.search import (
    Ask,
    Node,
    Tree,
    affordable,
    figures,
    next_to_tune,
    terminate,
)
from kevolve_mcp.search.provenance import PARAMETER_SEARCH
from kevolve_mcp.store import Demand, SessionRecord
from kevolve_mcp.synthesis.tuning import Choice, TuningExhausted

from . import asking, tuning
from .job import SubmitParameters
from .shared import Shared

AUTHOR = "the server"  # of starts that no author had to submit
STARTS_SHARE = 0.5  # of each limit of the budget at most: the rest belongs to authors


@dataclass(frozen=True)
class Setting:
    """A setting of a node's TUNABLES."""

    parameters: SubmitParameters
    first = False

    async def claim(self, shared: Shared) -> bool:
        """Return whether the budget has room for it now."""
        state = await _state(shared, self.parameters.session)
        return _settings_fit(state)

    async def give_back(self, shared: Shared) -> None:
        """Nothing was taken."""


@dataclass(frozen=True)
class WaitingStart:
    """A start that no author has taken. first: whether the session has no node yet."""

    parameters: SubmitParameters
    first: bool

    async def claim(self, shared: Shared) -> bool:
        """Lease its ask; return whether nobody else was faster and the budget has room for it."""
        session, seq = self.parameters.session, self.parameters.ask
        assert seq is not None
        state = await _state(shared, session)
        if not _starts_fit(state):
            return False
        store = await shared.store()
        try:
            await shared.thread(
                store.asks.take,
                session,
                seq,
                author=self.parameters.author,
                lease_s=asking.LEASE_S,
            )
        except Conflict:
            return False
        return True

    async def give_back(self, shared: Shared) -> None:
        """Free its ask, so that anybody may take it."""
        store = await shared.store()
        p = self.parameters
        assert p.ask is not None
        await shared.thread(store.asks.release, p.session, p.ask, author=p.author)


async def next_work(shared: Shared, session: str) -> Setting | WaitingStart | None:
    """Return the next kernel to evaluate for a session; None where nothing is left, or its share of
    the budget is spent, or the session is over."""
    state = await _state(shared, session)
    if state.record.state != "open" or await _ended(shared, state):
        return None
    return _next_start(state) or await _next_setting(shared, state)


@dataclass(frozen=True)
class _State:
    record: SessionRecord
    tree: Tree
    demand: Demand

    @property
    def open_asks(self) -> list[Ask]:
        measured = self.demand.asks_measured
        return [ask for ask in self.demand.waiting if ask.seq not in measured]


async def _state(shared: Shared, session: str) -> _State:
    store = await shared.store()
    record = await shared.thread(store.sessions.get, session)
    tree = await shared.thread(shared.trees.load, store, session)
    return _State(record, tree, await shared.thread(store.sessions.demand, session))


async def _ended(shared: Shared, state: _State) -> bool:
    """Whether the goal is reached, or another limit of the search."""
    record, tree = state.record, state.tree
    best = tree.best()
    if best is None:
        return False
    store = await shared.store()
    cases = (
        await shared.thread(store.evaluations.get, record.id, best.evaluation)
    ).evaluation.cases
    spent = state.demand.spent
    return terminate(tree, record.goal, record.budget, spent, best=figures(cases)) is not None


def _fits(state: _State, own: list[Node], share: float) -> bool:
    return affordable(
        own,
        share,
        state.record.budget,
        state.demand.spent,
        state.open_asks,
        len(state.demand.measuring),
    )


def _settings_fit(state: _State) -> bool:
    own = [n for n in state.tree.nodes if n.automatic]
    return _fits(state, own, state.record.options.tune)


def _starts_fit(state: _State) -> bool:
    return _fits(state, [n for n in state.tree.nodes if n.role == "start"], STARTS_SHARE)


def _next_start(state: _State) -> WaitingStart | None:
    if not _starts_fit(state):
        return None
    taken = state.tree.answered() | {ask.seq for ask in state.demand.waiting}
    for ask in state.tree.asks:
        if ask.start is not None and ask.seq not in taken:
            parameters = SubmitParameters(
                session=state.record.id,
                candidate=ask.start.candidate,
                ask=ask.seq,
                author=asking.holder(AUTHOR),
            )
            return WaitingStart(parameters, first=not state.tree.nodes)
    return None


async def _next_setting(shared: Shared, state: _State) -> Setting | None:
    node = next_to_tune(state.tree) if _settings_fit(state) else None
    if node is None:
        return None
    store = await shared.store()
    candidate = await shared.thread(store.candidates.get, node.candidate)
    rows = [tuning.row(n) for n in state.tree.families[node.family]]
    try:
        choice = await shared.thread(tuning.choose, candidate, rows)
    except TuningExhausted:
        return None
    await shared.thread(store.candidates.put, choice.candidate)
    return Setting(_parameters(state.record.id, node, choice))


def _parameters(session: str, node: Node, choice: Choice) -> SubmitParameters:
    changed = ", ".join(
        f"{name}={value}" for name, value in choice.params.items() if node.params.get(name) != value
    )
    return SubmitParameters(
        session=session,
        candidate=choice.candidate.digest,
        parents=(node.id,),
        role="tune",
        author=PARAMETER_SEARCH,
        hypothesis=f"{node.id} with {changed} ({choice.method})",
    )
