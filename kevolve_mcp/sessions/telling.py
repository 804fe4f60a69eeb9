"""Kernels handed in: told to a session as a node, or only compiled, checked or profiled."""

from __future__ import annotations

import difflib
import hashlib
from dataclasses import replace
from typing import Any

from harness.types import Candidate, CandidateError, EvaluationRequest, Policy, Purpose, Stage
from kevolve_mcp.errors import Conflict, UsageError
from kevolve_mcp.executors.base import Progress
from kevolve_mcp.search import Ask, Node, Tree
from kevolve_mcp.store import Job, NewNode, SessionRecord, Store, StoredEvaluation
from kevolve_mcp.synthesis import structure_digest
from knowledge.families import of_operators

from . import asking, descent, evaluating, inputs, leases, listings, skills, views
from .evaluating import Order
from .shared import Shared
from .types import Depth, Evaluated, JobView, KernelRequest, SubmitRequest

PAGES, CANDIDATES = 3, 12  # that an answer names, of so many that fit its signals
STAGES: dict[Depth, tuple[Purpose, Stage]] = {
    "compile": ("check", "build"),
    "check": ("check", "verify"),
    # as "submit", so that submitting what was profiled answers from the store
    "profile": ("search", "diagnose"),
    "ablation": ("ablation", "time"),
    "submit": ("search", "diagnose"),
}


async def submit(shared: Shared, request: SubmitRequest) -> JobView:
    """The node at once where the store knows the answer, else a job. Raises UsageError, NotFound,
    Conflict."""
    store = await shared.store()
    record = await shared.thread(store.sessions.get, request.session_id)
    if record.state != "open":
        raise Conflict(
            f"session {record.id} is {record.state}: {record.reason}",
            "session_open(..., new=true) starts another one.",
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
    order = await _session_order(shared, store, record, candidate, payload)
    if (found := await evaluating.known(shared, order)) is not None:
        return await _at_once(shared, payload, found)
    same = _digest(
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
    payload: dict[str, Any] = {"depth": depth, "repeat": request.repeat, "effort": request.effort}
    if request.session_id:
        if request.task:
            raise UsageError(
                "both session_id and a task were given",
                "Give one of them; the session has its task.",
            )
        record = await shared.thread(store.sessions.get, request.session_id)
        candidate = inputs.candidate(loaded, request.language or record.language)
        payload |= {"session": record.id, "target": request.target or record.target}
        order = await _session_order(shared, store, record, candidate, payload)
        await shared.thread(store.candidates.put, candidate)
        payload["candidate"] = candidate.digest
        if (found := await evaluating.known(shared, order)) is not None:
            return await _at_once(shared, payload, found)
    else:
        task = await shared.thread(inputs.load_task, request.task)
        target = request.target or "cpu"
        candidate = inputs.candidate(loaded, request.language or inputs.usual_language(target))
        await shared.thread(store.candidates.put, candidate)
        payload |= {
            "candidate": candidate.digest,
            "source": task.source,
            "path": task.path,
            "target": target,
            "python": request.python,
        }
    session = payload.get("session")
    return await shared.jobs.start(
        "evaluate", session, payload, _digest(*map(str, payload.values()))
    )


class Evaluating:
    """The handler of "evaluate" jobs."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared

    async def run(self, job: Job, progress: Progress) -> dict[str, Any]:
        shared, p = self._shared, job.payload
        store = await shared.store()
        candidate = await shared.thread(store.candidates.get, p["candidate"])
        depth: Depth = p["depth"]
        if "session" in p:
            record = await shared.thread(store.sessions.get, p["session"])
            order = await _session_order(shared, store, record, candidate, p)
        else:
            order = await self._bare_order(candidate, p, progress)
        if depth != "submit":
            found, cached = await evaluating.stored(shared, order, progress)
            return {
                "depth": depth,
                "session": p.get("session", ""),
                "evaluation": found.id,
                "node": "",
                "cached": cached,
            }
        # the node may be there already: its evaluation is not inserted with it
        if order.repeat or order.request.effort > 1:
            found, cached = await evaluating.stored(shared, order, progress)
            return {**await shared.thread(_insert, store, p, candidate, found), "cached": cached}
        measured = await evaluating.measure(shared, order, progress)
        return await shared.thread(_insert, store, p, candidate, measured)

    async def show(self, job: Job) -> Evaluated:
        assert job.result is not None
        return await evaluated(self._shared, job.payload, job.result)

    async def _bare_order(
        self, candidate: Candidate, p: dict[str, Any], progress: Progress
    ) -> Order:
        task, executor = await evaluating.opened(
            self._shared, p, progress, timed=p["depth"] in ("profile", "ablation")
        )
        return Order(
            task,
            _request(candidate, p, Policy()),
            p["target"],
            executor,
            repeat=bool(p.get("repeat")),
        )


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
    """Whether no other node shows the same figure: an equal one is no improvement."""
    others = max((n.score for n in tree.nodes if n.eligible and n.id != best.id), default=0.0)
    return f"{best.score:.2f}" != f"{others:.2f}"


async def _at_once(shared: Shared, p: dict[str, Any], found: StoredEvaluation) -> JobView:
    """Answered from the store: no job, no worker."""
    store = await shared.store()
    if p["depth"] == "submit":
        candidate = await shared.thread(store.candidates.get, p["candidate"])
        result = await shared.thread(_insert, store, p, candidate, found)
    else:
        result = {
            "depth": p["depth"],
            "session": p["session"],
            "evaluation": found.id,
            "node": "",
            "cached": True,
        }
    return JobView("", "evaluate", "done", p["session"], result=await evaluated(shared, p, result))


def _insert(
    store: Store,
    p: dict[str, Any],
    candidate: Candidate,
    found: StoredEvaluation | evaluating.Fresh,
) -> dict[str, Any]:
    """The checkpoint: evaluation and node in one transaction; told twice, the node that is
    there."""
    session, ask = p["session"], None
    if p["ask"] is not None:
        ask = store.asks.get(session, p["ask"])
    try:
        params, structure = candidate.params(), structure_digest(candidate)
    except CandidateError:  # it is invalid for that, which is worth a node
        params, structure = {}, ""
    cached = isinstance(found, StoredEvaluation)
    placed = descent.find(store, p, ask, candidate, structure, params)
    origin = _origin(ask, candidate, store)
    node = store.nodes.add(
        session,
        NewNode(
            candidate=candidate.digest,
            evaluation=found.id if isinstance(found, StoredEvaluation) else found.evaluation,
            parents=placed.parents,
            ask=p["ask"],
            role=placed.role,
            origin=origin,
            hypothesis=p["hypothesis"] or _start_note(ask, candidate),
            predicted_speedup=p["predicted_speedup"],
            rationale=p["rationale"],
            annotations={**(ask.annotations if ask else {}), leases.AUTHOR: p.get("author", "")},
            params=params,
            structure=structure,
            tokens=p.get("tokens", 0),  # a job that an earlier release started has none
            usd=p.get("usd", 0.0),
            skills=skills.used_by(
                store, session, p["ask"], origin, f"{p['hypothesis']}\n{p['rationale']}"
            ),
        ),
    )
    likeness = [placed.likeness.node, placed.likeness.share] if placed.likeness else None
    return {
        "depth": "submit",
        "session": session,
        "evaluation": node.evaluation,
        "node": node.id,
        "cached": cached,
        "likeness": likeness,
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


async def _session_order(
    shared: Shared, store: Store, record: SessionRecord, candidate: Candidate, p: dict[str, Any]
) -> Order:
    """p: a job's payload; one that an earlier release started lacks some of it."""
    task, executor = evaluating.place(
        shared, record, await shared.thread(store.tasks.get, record.task)
    )
    request, target = _request(candidate, p, record.policy), p.get("target") or record.target
    if p["depth"] == "submit":
        best = (await shared.thread(shared.trees.load, store, record.id)).best()
        request = replace(request, best=best.assured if best else 0.0)
    return Order(task, request, target, executor, record.id, bool(p.get("repeat")))


def _request(candidate: Candidate, p: dict[str, Any], policy: Policy) -> EvaluationRequest:
    purpose, through = STAGES[p["depth"]]
    return EvaluationRequest(
        candidate, purpose, through, policy, effort=float(p.get("effort", 1.0))
    )


def _origin(ask: Ask | None, candidate: Candidate, store: Store) -> str | None:
    """Where a start came from. A start that was fixed keeps its origin; a kernel of another text
    was not borrowed."""
    if ask is None or ask.role != "start":
        return None
    given = str(ask.annotations.get("candidate", ""))
    if (
        given
        and given != candidate.digest
        and not _resembles(store.candidates.get(given).source, candidate.source)
    ):
        return None
    return str(ask.annotations["origin"])


def _resembles(given: str, submitted: str) -> bool:
    return (
        difflib.SequenceMatcher(
            None, given.splitlines(), submitted.splitlines(), autojunk=False
        ).ratio()
        > 0.6
    )


def _start_note(ask: Ask | None, candidate: Candidate) -> str:
    if ask is None or ask.role != "start" or ask.annotations.get("candidate") != candidate.digest:
        return ""
    return str(ask.annotations.get("note", ""))


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


def _digest(*parts: object) -> str:
    return hashlib.sha256("\0".join(map(str, parts)).encode()).hexdigest()
