"""Kernels handed in: told to a session as a node, or only compiled, checked or profiled."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from harness.types import Candidate
from kevolve_mcp.actions import Action
from kevolve_mcp.errors import Conflict, UsageError
from kevolve_mcp.executors.base import Progress
from kevolve_mcp.search import Ask, Node, Tree, observed
from kevolve_mcp.store import SessionRecord, Store, StoredEvaluation
from knowledge.families import of_operators

from . import asking, descent, evaluating, inputs, leases, listings, places, recording, views
from .job import Job
from .parameters import Location, MeasureParameters, SubmitParameters
from .shared import Shared
from .types import Depth, Evaluated, JobView, KernelRequest, SubmitRequest

PAGES, CANDIDATES = 3, 12  # that an answer names, of so many that fit its signals


async def submit(shared: Shared, request: SubmitRequest) -> JobView:
    """The node at once where the store knows the answer, else a job. Raises UsageError, NotFound,
    Conflict."""
    store = await shared.store()
    record = await shared.thread(store.sessions.get, request.session_id)
    if record.state != "open":
        raise Conflict(
            f"session {record.id} is {record.state}: {record.reason}",
            "",
            Action("open_another", "starts another one"),
        )
    ask = (
        await shared.thread(store.asks.get, record.id, asking.ask_seq(request.ask_id))
        if request.ask_id
        else None
    )
    candidate = await _candidate(shared, store, record, request, ask)
    inputs.check_effort(request.effort)
    parents, assumed = descent.named(request, ask)
    await shared.thread(descent.check, store, record.id, parents)
    await shared.thread(store.candidates.put, candidate)
    parameters = SubmitParameters(
        session=record.id,
        candidate=candidate.digest,
        ask=ask.seq if ask else None,
        parents=parents,
        assumed_root=assumed,
        root_named=bool(request.parents) and not parents,
        author=leases.holder(request.author),
        hypothesis=request.hypothesis,
        predicted_speedup=request.predicted_speedup,
        rationale=request.rationale,
        tokens=request.tokens,
        usd=request.usd,
        repeat=request.repeat,
        effort=request.effort,
    )
    place = await places.of_session(shared, record)
    if (done := await recording.at_once(shared, place, parameters)) is not None:
        shared.background.wake(record.id)
        return _at_once("submit", record.id, await _told(shared, parameters, done))
    return await shared.jobs.start("submit", parameters)


async def kernel(shared: Shared, request: KernelRequest, depth: Depth) -> JobView:
    """compile, check, profile or ablation: an evaluation without a node."""
    store = await shared.store()
    loaded = await shared.thread(inputs.load_kernel, request.kernel)
    inputs.check_effort(request.effort)
    named = await places.name(shared, request)
    candidate = inputs.candidate(loaded, named.language)
    await shared.thread(store.candidates.put, candidate)
    parameters = MeasureParameters(
        depth=depth,
        where=named.where,
        candidate=candidate.digest,
        repeat=request.repeat,
        effort=request.effort,
    )
    if named.record is not None:
        place = await places.of_session(shared, named.record, named.where.target)
        order = places.order(place, candidate, parameters)
        if (found := await evaluating.known(shared, order)) is not None:
            result = await _measured(shared, parameters, found, cached=True)
            return _at_once(depth, named.record.id, result)
    return await shared.jobs.start(depth, parameters)


class SubmitJob(Job[SubmitParameters, Evaluated]):
    kind = "submit"
    parameters = SubmitParameters
    result = Evaluated

    def __init__(self, shared: Shared) -> None:
        self._shared = shared

    def same(self, parameters: SubmitParameters) -> object:
        """Whatever its author says of it."""
        p = parameters
        place: object = p.parents if p.ask is None else p.ask
        return p.session, p.candidate, place, p.repeat, p.effort

    async def run(self, parameters: SubmitParameters, progress: Progress) -> Evaluated:
        place = await places.find(self._shared, Location(parameters.session), progress)
        found = await recording.record(self._shared, place, parameters, progress)
        return await _told(self._shared, parameters, found)


class MeasureJob(Job[MeasureParameters, Evaluated]):
    """One for each depth but that of a node. timed: whether the task's baselines are needed."""

    parameters = MeasureParameters
    result = Evaluated

    def __init__(self, shared: Shared, kind: Depth, usual_s: float, *, timed: bool) -> None:
        self._shared = shared
        self.kind, self.usual_s, self._timed = kind, usual_s, timed

    async def run(self, parameters: MeasureParameters, progress: Progress) -> Evaluated:
        shared, p = self._shared, parameters
        store = await shared.store()
        place = await places.find(shared, p.where, progress, timed=self._timed)
        candidate = await shared.thread(store.candidates.get, p.candidate)
        order = places.order(place, candidate, p)
        found, cached = await evaluating.stored(shared, order, progress)
        return await _measured(shared, p, found, cached=cached)


def measure_jobs(shared: Shared) -> tuple[MeasureJob, ...]:
    return (
        MeasureJob(shared, "compile", 3.0, timed=False),
        MeasureJob(shared, "check", 8.0, timed=False),
        MeasureJob(shared, "profile", 20.0, timed=True),
        MeasureJob(shared, "ablation", 20.0, timed=True),
    )


async def _measured(
    shared: Shared, p: MeasureParameters, found: StoredEvaluation, *, cached: bool
) -> Evaluated:
    """An evaluation that makes no node, beside the best node of its session."""
    plain = await _plain(shared, p.depth, found, cached=cached)
    if not p.session:
        return plain
    store = await shared.store()
    tree = await shared.thread(shared.trees.load, store, p.session)
    spent = await shared.thread(store.sessions.spent, p.session)
    return replace(plain, session_id=p.session, best=views.best_view(tree), spent=spent)


async def _told(shared: Shared, p: SubmitParameters, found: recording.Recorded) -> Evaluated:
    """A node, beside what its session has reached with it."""
    plain = await _plain(shared, "submit", found.evaluation, cached=found.cached)
    store = await shared.store()
    tree = await shared.thread(shared.trees.load, store, p.session)
    spent = await shared.thread(store.sessions.spent, p.session)
    node, best = tree.by_id[found.node], tree.best()
    return replace(
        plain,
        session_id=p.session,
        node=views.node_view(tree, node),
        best=views.best_view(tree),
        new_best=best is not None and node.id == best.id and _leads(tree, best),
        assumed_root=p.assumed_root and not node.parents,
        nearest=found.likeness.node if found.likeness else "",
        likeness=found.likeness.share if found.likeness else None,
        predicted_speedup=node.predicted_speedup,
        observed=observed(tree, node),
        spent=spent,
    )


async def _plain(
    shared: Shared, depth: Depth, found: StoredEvaluation, *, cached: bool
) -> Evaluated:
    """The evaluation alone, with the pages to which its signals lead."""
    store, evaluation = await shared.store(), found.evaluation
    view = views.evaluation_view(found.id, evaluation, held_out=False)
    facts: dict[str, Any] = {
        s.stage: listings.brief(s.data)
        for s in evaluation.stages
        if s.data and s.stage in ("build", "profile")
    }
    if evaluation.status != "correct" and (
        log := next((s.log for s in evaluation.stages if not s.ok and s.log), "")
    ):
        facts["log"] = {"end": log[-1500:]}
    names = tuple(s.name for s in evaluation.signals)
    task = await shared.thread(store.tasks.get, evaluation.task)
    hits = await shared.thread(
        _pages, shared, names, evaluation.target, evaluation.language, tuple(task.operators)
    )
    return Evaluated(depth, view, cached=cached, facts=facts, knowledge=hits)


def _at_once(kind: Depth, session: str, result: Evaluated) -> JobView:
    """Answered from the store: no job, no worker."""
    return JobView("", kind, "done", session, result=result)


def _leads(tree: Tree, best: Node) -> bool:
    """Whether it beat the one that was best, or no other node shows the same figure: an equal one
    is no improvement."""
    if best.met is not None and best.met.won:
        return True
    others = max((n.score for n in tree.nodes if n.eligible and n.id != best.id), default=0.0)
    return f"{best.score:.2f}" != f"{others:.2f}"


async def _candidate(
    shared: Shared, store: Store, record: SessionRecord, request: SubmitRequest, ask: Ask | None
) -> Candidate:
    if request.kernel:
        return inputs.candidate(
            await shared.thread(inputs.load_kernel, request.kernel), record.language
        )
    if ask is not None and ask.role == "start":
        return await shared.thread(store.candidates.get, str(ask.annotations["candidate"]))
    what = (
        f"ask {ask.id} is a {ask.role}, which wants a kernel from you"
        if ask
        else "no kernel was given"
    )
    raise UsageError(
        what, "Give path (absolute) or source; only asks of role start bring their own kernel."
    )


def _pages(
    shared: Shared, signals: tuple[str, ...], target: str, language: str, operators: tuple[str, ...]
) -> tuple[str, ...]:
    """Pages that the signals lead to, without those that are about other operators than the
    task's."""
    if not signals:
        return ()
    library, families = shared.library(), set(of_operators(operators))
    about = {page.id: set(page.families) for page in library.pages()}
    hits = library.search(
        signals=signals, target=target, language=language, limit=CANDIDATES, operators=operators
    ).hits
    fitting = [h.id for h in hits if not families or not about.get(h.id) or about[h.id] & families]
    return tuple(fitting[:PAGES])
