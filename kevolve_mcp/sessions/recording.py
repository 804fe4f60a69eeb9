"""Recording a submitted kernel: its evaluation, and the node that it becomes."""

from __future__ import annotations

import difflib
from dataclasses import dataclass

from harness.types import Candidate, CandidateError, Evaluation
from kevolve_mcp.errors import BudgetFull
from kevolve_mcp.executors.base import Progress
from kevolve_mcp.search import Ask, Meeting, Node
from kevolve_mcp.search.provenance import PARAMETER_SEARCH, Origin
from kevolve_mcp.store import BudgetPlace, NewNode, Store, StoredEvaluation
from kevolve_mcp.synthesis import structure_digest
from kevolve_mcp.synthesis.likeness import Likeness

from . import descent, evaluating, places, remeasuring, skills
from .evaluating import EvaluationOrder
from .job import SubmitParameters
from .shared import Shared

LONG_TEXT = 2000  # lines; of longer texts those that repeat are not compared


@dataclass(frozen=True)
class Recorded:
    """A node and its evaluation. cached: whether the store knew the answer. likeness: to the most
    similar earlier node, where no parent was named."""

    node: str
    evaluation: StoredEvaluation
    cached: bool
    likeness: Likeness | None = None


async def order(
    shared: Shared, place: places.EvaluationPlace, p: SubmitParameters
) -> EvaluationOrder:
    """Return how to evaluate a candidate, given the best node of its session."""
    store = await shared.store()
    tree = await shared.thread(shared.trees.load, store, p.session)
    candidate = await shared.thread(store.candidates.get, p.candidate)
    best = tree.best()
    return places.order(place, candidate, p, tree.known[best.id] if best else 0.0)


async def at_once(
    shared: Shared, place: places.EvaluationPlace, p: SubmitParameters
) -> Recorded | None:
    """Return what `record` returns, if the store knows the answer and nothing is left to measure.
    Raises BudgetFull if it must be charged to this session and does not fit the budget."""
    evaluation_order = await order(shared, place, p)
    answer = await evaluating.known(shared, evaluation_order)
    if answer is None:
        return None
    if not await _is_node(shared, p) and (
        remeasuring.wanted(answer.evaluation, evaluation_order.request.best)
        or await _rival(shared, p, answer.evaluation) is not None
    ):
        return None
    return await _inserted(shared, p, evaluation_order, answer, cached=True, place="free")


async def record(
    shared: Shared, place: places.EvaluationPlace, p: SubmitParameters, progress: Progress
) -> Recorded:
    """Evaluate a candidate and return its node: it is measured longer if its interval is too wide,
    and timed against the best node if it may be better. Repeated after a crash, it finds its
    measurements in the store. Raises BudgetFull for a setting whose place in the budget authors
    took meanwhile."""
    evaluation_order = await order(shared, place, p)
    # the node may already exist, so its evaluation is not inserted with it
    if evaluation_order.repeat or evaluation_order.request.effort > 1:
        stored, cached = await evaluating.stored(shared, evaluation_order, progress)
        return await _inserted(shared, p, evaluation_order, stored, cached=cached)
    measured = await evaluating.measure(shared, evaluation_order, progress)
    cached = isinstance(measured, StoredEvaluation)
    # a setting of parameter search is one of many: the head-to-head with the best one is enough
    by_author = p.author != PARAMETER_SEARCH
    useless = by_author and remeasuring.wanted(measured.evaluation, evaluation_order.request.best)
    if useless and not await _is_node(shared, p):
        left_s = await _left(shared, p)
        measured = await remeasuring.sharpened(shared, evaluation_order, measured, left_s, progress)
        cached = False
    async with shared.telling(p.session):
        best = await _rival(shared, p, measured.evaluation)
        met = None
        if best is not None:
            measured = await evaluating.keep(shared, evaluation_order, measured)
            met = await remeasuring.meet(
                shared, place, evaluation_order.request.candidate, best, progress
            )
        kept: BudgetPlace = "held" if by_author else "left_over"
        try:
            return await _inserted(
                shared, p, evaluation_order, measured, cached=cached, met=met, place=kept
            )
        except BudgetFull:
            # for a later attempt
            await evaluating.keep(shared, evaluation_order, measured)
            raise


async def _is_node(shared: Shared, p: SubmitParameters) -> bool:
    """Whether the tree already has the same text."""
    store = await shared.store()
    tree = await shared.thread(shared.trees.load, store, p.session)
    return any(node.candidate == p.candidate for node in tree.nodes)


async def _rival(shared: Shared, p: SubmitParameters, evaluation: Evaluation) -> Node | None:
    store = await shared.store()
    tree = await shared.thread(shared.trees.load, store, p.session)
    return remeasuring.rival(tree, evaluation, await _left(shared, p))


async def _left(shared: Shared, p: SubmitParameters) -> float:
    """The seconds that the session has left."""
    store = await shared.store()
    record = await shared.thread(store.sessions.get, p.session)
    return record.budget.seconds_left(await shared.thread(store.sessions.spent, record.id))


async def _inserted(
    shared: Shared,
    p: SubmitParameters,
    evaluation_order: EvaluationOrder,
    measured: StoredEvaluation | evaluating.Fresh,
    *,
    cached: bool,
    met: Meeting | None = None,
    place: BudgetPlace = "held",
) -> Recorded:
    """The recorded node, stored together with its evaluation."""
    store, candidate = await shared.store(), evaluation_order.request.candidate
    return await shared.thread(_insert, shared, store, p, candidate, measured, met, cached, place)


def _insert(
    shared: Shared,
    store: Store,
    p: SubmitParameters,
    candidate: Candidate,
    measured: StoredEvaluation | evaluating.Fresh,
    met: Meeting | None,
    cached: bool,
    place: BudgetPlace,
) -> Recorded:
    """Insert evaluation and node in one transaction; a kernel submitted twice gets the existing
    node."""
    ask = None if p.ask is None else store.asks.get(p.session, p.ask)
    try:
        params, structure = candidate.params(), structure_digest(candidate)
    except CandidateError:  # an invalid candidate also becomes a node
        params, structure = {}, ""
    tree = shared.trees.load(store, p.session)
    placed = descent.find(store, tree, p, ask, candidate, structure, params)
    origin = _origin(ask, candidate, store)
    node = store.nodes.add(
        p.session,
        NewNode(
            candidate=candidate.digest,
            evaluation=measured.id
            if isinstance(measured, StoredEvaluation)
            else measured.evaluation,
            parents=placed.parents,
            ask=p.ask,
            role=p.role or placed.role,
            author=p.author,
            origin=origin,
            hypothesis=p.hypothesis or _start_note(ask, candidate),
            predicted_speedup=p.predicted_speedup,
            rationale=p.rationale,
            annotations=ask.annotations if ask else {},
            met=met,
            params=params,
            structure=structure,
            tokens=p.tokens,
            usd=p.usd,
            skills=skills.used_by(
                store,
                p.session,
                p.ask,
                origin,
                f"{p.hypothesis}\n{p.rationale}",
                candidate.source,
            ),
        ),
        place,
    )
    # a kernel submitted twice keeps its evaluation
    if not isinstance(measured, StoredEvaluation) or measured.id != node.evaluation:
        measured = store.evaluations.get(p.session, node.evaluation)
    return Recorded(node.id, measured, cached, placed.likeness)


def _origin(ask: Ask | None, candidate: Candidate, store: Store) -> Origin | None:
    """Where a start came from. A corrected start keeps its origin; a different kernel has none."""
    start = ask.start if ask else None
    if start is None or (
        start.candidate != candidate.digest
        and not _resembles(store.candidates.get(start.candidate).source, candidate.source)
    ):
        return None
    return start.origin


def _resembles(start: str, submitted: str) -> bool:
    lines, others = start.splitlines(), submitted.splitlines()
    long = max(len(lines), len(others)) > LONG_TEXT
    return difflib.SequenceMatcher(None, lines, others, autojunk=long).ratio() > 0.6


def _start_note(ask: Ask | None, candidate: Candidate) -> str:
    start = ask.start if ask else None
    return start.note if start is not None and start.candidate == candidate.digest else ""
