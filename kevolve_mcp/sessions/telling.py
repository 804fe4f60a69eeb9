"""Kernels handed in: told to a session as a node, or only compiled, checked or profiled."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from harness.types import Candidate
from kevolve_mcp.actions import Action
from kevolve_mcp.errors import Conflict, UsageError
from kevolve_mcp.executors.base import Progress
from kevolve_mcp.search import Ask, Node, Tree
from kevolve_mcp.store import Job, SessionRecord, Store, StoredEvaluation
from knowledge.families import of_operators

from . import asking, descent, evaluating, inputs, leases, listings, places, recording, views
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
    payload = {
        "depth": "submit",
        "session": record.id,
        "candidate": candidate.digest,
        "ask": ask.seq if ask else None,
        "parents": list(parents),
        "assumed_root": assumed,
        "root_named": bool(request.parents) and not parents,
        "author": leases.holder(request.author),
        "hypothesis": request.hypothesis,
        "predicted_speedup": request.predicted_speedup,
        "rationale": request.rationale,
        "tokens": request.tokens,
        "usd": request.usd,
        "repeat": request.repeat,
        "effort": request.effort,
    }
    place = await places.of_session(shared, record)
    if (done := await recording.at_once(shared, place, payload)) is not None:
        shared.background.wake(record.id)
        return await _at_once(shared, payload, done)
    same = places.same(
        "submit",
        record.id,
        candidate.digest,
        ask.seq if ask else parents,
        request.repeat,
        request.effort,
    )
    return await shared.jobs.start("evaluate", record.id, payload, same)


async def kernel(shared: Shared, request: KernelRequest, depth: Depth) -> JobView:
    """compile, check, profile or ablation: an evaluation without a node."""
    store = await shared.store()
    loaded = await shared.thread(inputs.load_kernel, request.kernel)
    inputs.check_effort(request.effort)
    named = await places.name(shared, request)
    candidate = inputs.candidate(loaded, named.language)
    await shared.thread(store.candidates.put, candidate)
    payload = {
        "depth": depth,
        "repeat": request.repeat,
        "effort": request.effort,
        **named.payload,
        "candidate": candidate.digest,
    }
    session = named.record.id if named.record else None
    if named.record is not None:
        place = await places.of_session(shared, named.record, payload["target"])
        order = places.order(place, candidate, payload)
        if (found := await evaluating.known(shared, order)) is not None:
            return await _at_once(shared, payload, _measured(payload, found, cached=True))
    return await shared.jobs.start("evaluate", session, payload, places.same(*payload.values()))


class Evaluating:
    """The handler of "evaluate" jobs."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared

    async def run(self, job: Job, progress: Progress) -> dict[str, Any]:
        shared, p = self._shared, job.payload
        timed = p["depth"] in ("profile", "ablation", "submit")
        place = await places.find(shared, p, progress, timed=timed)
        if p["depth"] == "submit":
            return await recording.record(shared, place, p, progress)
        store = await shared.store()
        candidate = await shared.thread(store.candidates.get, p["candidate"])
        order = places.order(place, candidate, p)
        found, cached = await evaluating.stored(shared, order, progress)
        return _measured(p, found, cached=cached)

    async def show(self, job: Job) -> Evaluated:
        assert job.result is not None
        return await evaluated(self._shared, job.payload, job.result)


async def evaluated(shared: Shared, p: dict[str, Any], result: dict[str, Any]) -> Evaluated:
    """The view of a finished evaluation, built from the store."""
    store = await shared.store()
    found = await shared.thread(store.evaluations.get, result["evaluation"])
    evaluation = found.evaluation
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
    plain = Evaluated(
        result["depth"], view, cached=bool(result["cached"]), facts=facts, knowledge=hits
    )
    if not result["session"]:
        return plain
    tree = await shared.thread(shared.trees.load, store, result["session"])
    spent = await shared.thread(store.sessions.spent, result["session"])
    node = tree.by_id.get(result["node"])
    best = tree.best()
    # a job that an earlier release finished has none
    near, share = result.get("likeness") or ("", None)
    return replace(
        plain,
        session_id=result["session"],
        node=views.node_view(tree, node) if node else None,
        best=views.node_view(tree, best) if best else None,
        new_best=bool(node and best and node.id == best.id and _leads(tree, best)),
        assumed_root=bool(p.get("assumed_root") and node and not node.parents),
        nearest=near,
        likeness=share,
        predicted_speedup=node.predicted_speedup if node else None,
        observed=views.observed(tree, node) if node else None,
        spent=spent,
    )


def _leads(tree: Tree, best: Node) -> bool:
    """Whether it beat the one that was best, or no other node shows the same figure: an equal one
    is no improvement."""
    if best.met is not None and best.met.won:
        return True
    others = max((n.score for n in tree.nodes if n.eligible and n.id != best.id), default=0.0)
    return f"{best.score:.2f}" != f"{others:.2f}"


async def _at_once(shared: Shared, p: dict[str, Any], result: dict[str, Any]) -> JobView:
    """Answered from the store: no job, no worker."""
    return JobView("", "evaluate", "done", p["session"], result=await evaluated(shared, p, result))


def _measured(p: dict[str, Any], found: StoredEvaluation, *, cached: bool) -> dict[str, Any]:
    """The result of a job that makes no node."""
    session = p.get("session", "")
    return {
        "depth": p["depth"],
        "session": session,
        "evaluation": found.id,
        "node": "",
        "cached": cached,
    }


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
