"""The jobs that evaluate one kernel: as a node of a session, or without one."""

from __future__ import annotations

from dataclasses import replace

from harness.types import Evaluation
from kevolve_mcp import api
from kevolve_mcp.executors.base import Progress
from kevolve_mcp.search import observed
from kevolve_mcp.store import StoredEvaluation
from knowledge.families import of_operators

from . import evaluating, places, recording
from .job import JobKind, Location, MeasureParameters, SubmitParameters
from .passages import exact_target, features, holds
from .shared import Shared

PAGES, CANDIDATES = 3, 12  # pages that an answer names, and hits from which they are chosen


class SubmitJob(JobKind[SubmitParameters, api.Evaluated]):
    kind = "submit"
    parameters = SubmitParameters
    result = api.Evaluated

    def __init__(self, shared: Shared) -> None:
        self._shared = shared

    def same(self, parameters: SubmitParameters) -> object:
        """Return the parameters without the author's words."""
        p = parameters
        place: object = p.parents if p.ask is None else p.ask
        return p.session, p.candidate, place, p.repeat, p.effort

    async def run(self, parameters: SubmitParameters, progress: Progress) -> api.Evaluated:
        place = await places.find(self._shared, Location(parameters.session), progress)
        recorded = await recording.record(self._shared, place, parameters, progress)
        return await submitted(self._shared, parameters, recorded)


class MeasureJob(JobKind[MeasureParameters, api.Evaluated]):
    """Evaluations without a node, one kind of job per depth. timed: whether the task's baselines
    are needed."""

    parameters = MeasureParameters
    result = api.Evaluated

    def __init__(self, shared: Shared, kind: api.Depth, usual_s: float, *, timed: bool) -> None:
        self._shared = shared
        self.kind, self.usual_s, self._timed = kind, usual_s, timed

    async def run(self, parameters: MeasureParameters, progress: Progress) -> api.Evaluated:
        shared, p = self._shared, parameters
        store = await shared.store()
        place = await places.find(shared, p.where, progress, timed=self._timed)
        candidate = await shared.thread(store.candidates.get, p.candidate)
        order = places.order(place, candidate, p)
        stored, cached = await evaluating.stored(shared, order, progress)
        return await measured(shared, p, stored, cached=cached)


def measure_jobs(shared: Shared) -> tuple[MeasureJob, ...]:
    return (
        MeasureJob(shared, "compile", 3.0, timed=False),
        MeasureJob(shared, "check", 8.0, timed=False),
        MeasureJob(shared, "profile", 20.0, timed=True),
        MeasureJob(shared, "ablation", 20.0, timed=True),
    )


async def measured(
    shared: Shared, p: MeasureParameters, stored: StoredEvaluation, *, cached: bool
) -> api.Evaluated:
    """Return an evaluation without a node, with the best node of its session."""
    plain = await _plain(shared, p.depth, stored, cached=cached)
    if not p.session:
        return plain
    store = await shared.store()
    tree = await shared.thread(shared.trees.load, store, p.session)
    spent = await shared.thread(store.sessions.spent, p.session)
    return replace(plain, session_id=p.session, best=api.best(tree), spent=spent)


async def submitted(
    shared: Shared, p: SubmitParameters, recorded: recording.Recorded
) -> api.Evaluated:
    """Return a submitted node with the state of its session."""
    plain = await _plain(shared, "submit", recorded.evaluation, cached=recorded.cached)
    store = await shared.store()
    tree = await shared.thread(shared.trees.load, store, p.session)
    spent = await shared.thread(store.sessions.spent, p.session)
    node, best = tree.by_id[recorded.node], tree.best()
    return replace(
        plain,
        session_id=p.session,
        node=api.node(tree, node),
        best=api.best(tree),
        new_best=best is not None and node.id == best.id,
        assumed_root=p.assumed_root and not node.parents,
        nearest=recorded.likeness.node if recorded.likeness else "",
        likeness=recorded.likeness.share if recorded.likeness else None,
        predicted_speedup=node.predicted_speedup,
        observed=observed(tree, node),
        spent=spent,
    )


async def _plain(
    shared: Shared, depth: api.Depth, stored: StoredEvaluation, *, cached: bool
) -> api.Evaluated:
    """Only the evaluation, with the pages that its signals lead to."""
    store, evaluation = await shared.store(), stored.evaluation
    view = api.evaluation(evaluation, stored.id, held_out=False)
    task = await shared.thread(store.tasks.get, evaluation.task)
    hits = await shared.thread(_pages, shared, evaluation, tuple(task.operators))
    return api.Evaluated(depth, view, cached=cached, facts=api.facts(evaluation), knowledge=hits)


def _pages(shared: Shared, evaluation: Evaluation, operators: tuple[str, ...]) -> tuple[str, ...]:
    """Pages that the signals lead to and that apply to the device, without pages about other
    operators than the task's."""
    if not evaluation.signals:
        return ()
    signals = tuple(s.name for s in evaluation.signals)
    target = exact_target(evaluation.target, evaluation.environment)
    known = features(evaluation.target, evaluation.environment)
    library, families = shared.library(), set(of_operators(operators))
    pages = {page.id: page for page in library.pages()}
    hits = library.search(
        signals=signals,
        target=target,
        language=evaluation.language,
        limit=CANDIDATES,
        operators=operators,
    ).hits

    fitting = [
        h.id
        for h in hits
        # skills do not count as pages
        if (page := pages.get(h.id)) is None
        or (
            holds(page, target, known)
            and not (families and page.families and families.isdisjoint(page.families))
        )
    ]
    return tuple(fitting[:PAGES])
