"""The next step: the policy selects, memory and knowledge are gathered, one context is built and stored with the ask."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace

from harness.types import Budget, Candidate, MachineReport, Task
from kevolve_mcp.errors import Conflict, UsageError
from kevolve_mcp.search import Ask, Expansion, Node, Tree, ask_random, create_policy, figures, history, room, terminate
from kevolve_mcp.store import SessionRecord, Store
from kevolve_mcp.synthesis import Context, Excerpt, Material, Parent, SimilarKernel, Start, build_context, estimate_tokens
from kevolve_mcp.synthesis.ask import AskContext
from kevolve_mcp.synthesis.context import ask_data
from kevolve_mcp.synthesis.skills import mismatch
from knowledge import Skill

from . import leases, looking
from .shared import Shared
from .types import AskBatch, AskView

MAX_TOKENS = 8000
MAX_ROWS = 400  # of the history that travels as data
EXCERPT_CHARACTERS = 1600
PASSAGES = {"guidance": 2, "hardware": 1, "skill": 1}  # in one ask, of each kind; constraints count as guidance
CANDIDATES = 20  # hits among which they are chosen
RETRIES = 5  # another process may ask at the same moment


@dataclass(frozen=True)
class Built:
    """context: text and data of one ask; pages: the knowledge in it."""

    context: Context
    pages: tuple[str, ...]

    @property
    def skills(self) -> tuple[str, ...]:
        """Those of the pages that are skills."""
        return tuple(page for page in self.pages if page.startswith("skills/"))


async def next_asks(
    shared: Shared, session_id: str, *, count: int, ask_id: str, max_tokens: int, author: str, budget: Budget | None = None
) -> AskBatch:
    """`ask_id`: that ask again. Otherwise up to `count`: abandoned and unanswered ones first, then new ones, or why none.
    budget: the session's from now on."""
    store = await shared.store()
    record = await shared.thread(store.sessions.get, session_id)
    if ask_id:
        return await _reread(shared, store, record, ask_id, max_tokens)
    if record.state != "open":
        raise Conflict(
            f"session {session_id} is {record.state}: {record.reason}", "session_open(..., new=true) starts another one."
        )
    if budget is not None:
        record = await shared.thread(store.sessions.set_budget, session_id, budget)
    async with shared.asking(session_id):
        return await _ask(shared, store, record, count, max_tokens, leases.holder(author))


async def _ask(shared: Shared, store: Store, record: SessionRecord, count: int, max_tokens: int, holder: str) -> AskBatch:
    task = await shared.thread(store.tasks.get, record.task)
    await shared.thread(_free_abandoned, store, record.id)
    tree = await shared.thread(shared.trees.load, store, record.id)
    spent = await shared.thread(store.sessions.spent, record.id)
    waiting = await shared.thread(store.asks.open, record.id)
    best = tree.best()
    cases = (await shared.thread(store.evaluations.get, best.evaluation)).evaluation.cases if best else ()
    over = terminate(tree, record.goal, record.budget, spent, best=figures(cases), open_asks=waiting)
    if over is not None:
        return AskBatch(await looking.session(shared, record), (), over.reason, over.sentence)
    views: list[AskView] = []
    share = max_tokens // count
    while len(views) < count and (free := await _take_free(shared, store, record, holder)) is not None:
        views.append(await _again(shared, store, record, task, tree, free, share))
    for _ in range(count - len(views)):
        taken = frozenset(v.context.id for v in views)
        made = await _make(shared, store, record, task, share, holder, taken)
        if made is None:
            break
        views.append(made)
    return AskBatch(await looking.session(shared, record), tuple(views))


async def _make(
    shared: Shared, store: Store, record: SessionRecord, task: Task, max_tokens: int, holder: str, taken: frozenset[str]
) -> AskView | None:
    """One new ask; None when the policy would rather wait for the open ones, or the budget is spoken for."""
    policy = create_policy(record.selection)
    for _ in range(RETRIES):
        tree = await shared.thread(shared.trees.load, store, record.id)
        spent = await shared.thread(store.sessions.spent, record.id)
        waiting = await shared.thread(store.asks.open, record.id)
        if room(record.budget, spent, _counted(waiting, holder, await _under_way(shared, record.id), taken)) == 0:
            return None
        seq = await shared.thread(store.asks.next_seq, record.id)
        chosen = policy.select(tree, waiting, ask_random(record.seed, seq), spent, 1)
        if not chosen:
            return None
        built = await build(shared, record, task, tree, chosen[0], seq, max_tokens, None)
        try:
            ask = await shared.thread(
                store.asks.add,
                record.id,
                chosen[0],
                built.context.text,
                author=holder,
                lease_s=leases.LEASE_S,
                seq=seq,
                skills=built.skills,
            )
        except Conflict:
            continue  # another process took this seq: look again
        return AskView(built.context.ask, built.pages, "", ask.lease_until)
    raise Conflict(f"session {record.id} is being asked by many at once", "Call session_next again.")


def _counted(waiting: Sequence[Ask], holder: str, under_way: frozenset[int], taken: frozenset[str]) -> list[Ask]:
    """The open asks that will still cost an evaluation. Who asks again has put aside what it was given before, unless that is
    being evaluated: an author that had nothing for an ask must not be stopped by it."""
    return [a for a in waiting if a.author != holder or a.seq in under_way or a.id in taken]


async def _under_way(shared: Shared, session: str) -> frozenset[int]:
    """The asks whose answers are being evaluated."""
    running = [j for j in await shared.jobs.list(session) if not j.over]
    return frozenset(j.payload["ask"] for j in running if j.payload.get("ask") is not None)


async def _reread(shared: Shared, store: Store, record: SessionRecord, ask_id: str, max_tokens: int) -> AskBatch:
    seq = ask_seq(ask_id)
    ask = await shared.thread(store.asks.get, record.id, seq)
    task = await shared.thread(store.tasks.get, record.task)
    tree = await shared.thread(shared.trees.load, store, record.id)
    return AskBatch(await looking.session(shared, record), (await _again(shared, store, record, task, tree, ask, max_tokens),))


async def _again(
    shared: Shared, store: Store, record: SessionRecord, task: Task, tree: Tree, ask: Ask, max_tokens: int
) -> AskView:
    """An ask that exists: its stored text, and its data as of the moment when it was made."""
    then = Tree(tuple(n for n in tree.nodes if n.created <= ask.created), tuple(a for a in tree.asks if a.seq <= ask.seq))
    expansion = Expansion(ask.parents, ask.memory, ask.role, ask.annotations)
    built = await build(shared, record, task, then, expansion, ask.seq, max_tokens, None)
    shown = await shared.thread(store.asks.shown, record.id, ask.seq)
    context = AskContext.parse(built.context.ask.as_json(), shown)
    answers = [n.id for n in tree.nodes if n.ask == ask.seq]
    return AskView(context, built.pages, ", ".join(answers), ask.lease_until)


async def build(
    shared: Shared,
    record: SessionRecord,
    task: Task,
    tree: Tree,
    expansion: Expansion,
    seq: int,
    max_tokens: int,
    report: MachineReport | None,
) -> Built:
    """Context and data for an ask of this seq. `max_tokens` holds for both together, the text getting at least half."""
    store = await shared.store()
    spent = await shared.thread(store.sessions.spent, record.id)
    if report is None:
        report = shared.pool.known_report(shared.pool.get(record.python))
    gathered = await shared.thread(_gather, shared, store, record, task, tree, expansion)
    material = Material(
        session=record.id,
        ask=Ask(seq, expansion.parents, expansion.memory, expansion.role, expansion.annotations),
        task=task,
        target=record.target,
        language=record.language,
        goal=record.goal,
        budget=record.budget,
        spent=spent,
        seed=int.from_bytes(hashlib.sha256(f"{record.seed}:{seq}".encode()).digest()[:4], "big"),
        machine=report,
        best=tree.best(),
        best_candidate=gathered.best,
        parents=gathered.parents,
        history=gathered.history,
        tried=_tried(tree, gathered.parents),
        start=gathered.start,
        excerpts=gathered.excerpts,
        similar=gathered.similar,
    )
    material, data_tokens = _within(material, max_tokens // 2)
    context = build_context(material, max(max_tokens // 2, max_tokens - data_tokens))
    return Built(context, tuple(e.page_id for e in gathered.excerpts))


@dataclass(frozen=True)
class _Gathered:
    parents: tuple[Parent, ...]
    history: tuple[Node, ...]
    start: Start | None
    excerpts: tuple[Excerpt, ...]
    similar: tuple[SimilarKernel, ...]
    best: Candidate | None


def _gather(shared: Shared, store: Store, record: SessionRecord, task: Task, tree: Tree, expansion: Expansion) -> _Gathered:
    parents = []
    for node_id in expansion.parents:
        node = tree.by_id[node_id]
        parents.append(Parent(node, store.candidates.get(node.candidate), store.evaluations.get(node.evaluation).evaluation))
    start = None
    if expansion.role == "start":
        notes = expansion.annotations
        start = Start(store.candidates.get(str(notes["candidate"])), str(notes["origin"]), str(notes["note"]))
    similar: tuple[SimilarKernel, ...] = ()
    if expansion.role == "draft":
        found = store.similar(task.operators, record.target, record.language, 1, exclude_session=record.id)
        similar = tuple(SimilarKernel(s.task.name, s.candidate, s.fitness) for s in found)
    shown = history(tree, expansion).shown
    signals = tuple(dict.fromkeys(s for p in parents for s in p.node.signals))
    excerpts = () if expansion.role in ("start", "tune") else _excerpts(shared, record, task, signals)
    best = tree.best()  # its text is with the parents, where it is one of them
    text = store.candidates.get(best.candidate) if best is not None and best.id not in expansion.parents else None
    return _Gathered(tuple(parents), tuple(tree.by_id[i] for i in shown), start, excerpts, similar, text)


def _excerpts(shared: Shared, record: SessionRecord, task: Task, signals: tuple[str, ...]) -> tuple[Excerpt, ...]:
    """The passages that fit best what was found out about the parents and what the task does: at most one of hardware and one skill, the
    others constraints and guidance."""
    library = shared.library()
    skills = {skill.id: skill for skill in library.skills()}
    room, found = dict(PASSAGES), list[Excerpt]()
    words = " ".join([*signals, *(operator.split(".")[1] for operator in task.operators if "." in operator)])
    for hit in library.search(words, signals, record.target, record.language, CANDIDATES, operators=tuple(task.operators)).hits:
        kind = hit.category if hit.category in room else "guidance"
        if not room[kind] or (hit.id in skills and not _fits(skills[hit.id], task, record)):
            continue
        room[kind] -= 1
        why = f"{hit.why}; name {hit.id} in the rationale if you use it" if hit.id in skills else hit.why
        found.append(Excerpt(hit.id, hit.title, library.passage(hit.id, hit.section, EXCERPT_CHARACTERS), why))
    return tuple(found)


def _fits(skill: Skill, task: Task, record: SessionRecord) -> bool:
    """Whether a skill's pattern is that of the task; one without a pattern is judged by its words alone."""
    return not skill.pattern or not mismatch(skill, task, record.target, record.language)


def _tried(tree: Tree, parents: tuple[Parent, ...]) -> tuple[Node, ...]:
    """All attempts, those of the parents' structures first, then the newest; oldest first within what remains."""
    structures = {p.node.structure for p in parents}
    ranked = sorted(tree.nodes, key=lambda n: (n.structure not in structures, -n.seq))[:MAX_ROWS]
    return tuple(sorted(ranked, key=lambda n: n.seq))


def _within(material: Material, max_tokens: int) -> tuple[Material, int]:
    """The material with as many rows of `tried` as its data may have, and the size of the data in tokens."""
    size = _size(material)
    if size <= max_tokens or not material.tried:
        return material, size
    rows = len(material.tried)
    bare = _size(replace(material, tried=(), history=()))
    keep = max(0, int(rows * (max_tokens - bare) / max(1, size - bare)))
    structures = {p.node.structure for p in material.parents}
    ranked = sorted(material.tried, key=lambda n: (n.structure not in structures, -n.seq))[:keep]
    kept = replace(material, tried=tuple(sorted(ranked, key=lambda n: n.seq)) or material.history[-1:])
    return kept, _size(kept)


def _size(material: Material) -> int:
    return estimate_tokens(json.dumps(ask_data(material).as_json()))


def _free_abandoned(store: Store, session: str) -> None:
    for ask in store.asks.open(session):
        if leases.abandoned(ask):
            store.asks.release(session, ask.seq, author=ask.author)


async def _take_free(shared: Shared, store: Store, record: SessionRecord, holder: str) -> Ask | None:
    return await shared.thread(store.asks.take_expired, record.id, author=holder, lease_s=leases.LEASE_S)


def ask_seq(ask_id: str) -> int:
    """ "a12" -> 12. Raises UsageError."""
    if not (ask_id[:1] == "a" and ask_id[1:].isdigit()):
        raise UsageError(f"{ask_id!r} is no ask id", 'Ask ids look like "a7"; session_next gives them.')
    return int(ask_id[1:])
