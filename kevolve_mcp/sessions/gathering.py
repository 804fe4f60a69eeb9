"""The context of one ask: parents, history, pages and what its author was given before, gathered
from the store and fitted to a token limit."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from harness.types import Candidate, Environment, MachineReport, Task
from kevolve_mcp.actions import Say, plainly
from kevolve_mcp.search import AuthorId, Expansion, Node, Tree, history, searched
from kevolve_mcp.store import SessionRecord, Store
from kevolve_mcp.synthesis import (
    Context,
    Material,
    Parent,
    SimilarStart,
    Start,
    build_context,
    estimate_tokens,
    shown,
)
from kevolve_mcp.synthesis.context import ask_data
from kevolve_mcp.synthesis.sections import ranked

from . import experience
from .passages import Passages, Situation, choose, exact_target, features
from .shared import Shared

FIRST_TOKENS = 3000  # of an answer with one ask that contains the task
LATER_TOKENS = 1500  # of one whose author was given the task before
AROUND_TOKENS = 100  # of these: verdict, next steps and what is left of the budget
STRUCTURES = 3  # structures whose parameters were searched, with one line each
MAX_ROWS = 400  # of the history that is sent as data
EXCERPT_CHARACTERS = 1600  # at most, and at most a tenth of the text

Had = Mapping[str, str]


@dataclass(frozen=True)
class Reader:
    """The reader of an ask. had: what it was given before, see `synthesis.shown`; None for one that
    has seen nothing and may not be the one that asks again. max_tokens: the size of text and data
    together; None for the usual size. say: renders a call."""

    had: Had | None = None
    max_tokens: int | None = None
    say: Say = plainly

    @property
    def text_tokens(self) -> int:
        """Return the default size of an ask's own text."""
        whole = LATER_TOKENS if self.had and "task" in self.had else FIRST_TOKENS
        return whole - AROUND_TOKENS


@dataclass(frozen=True)
class BuiltAsk:
    """context: text and data of one ask; pages: the knowledge in it."""

    context: Context
    pages: tuple[str, ...]

    @property
    def skills(self) -> tuple[str, ...]:
        """Return the pages that are skills."""
        return tuple(page for page in self.pages if page.startswith("skills/"))


def had(
    store: Store, tree: Tree, session: str, holder: AuthorId, *, seq: int, earlier: bool = False
) -> Had:
    """Return what this author was given in other asks than `seq` (or only in earlier ones), and
    which sources it submitted itself."""
    known: dict[str, str] = {}
    keys_by_ask = store.asks.held_by(session, holder)
    for other, keys in keys_by_ask.items():
        if other != seq and (other < seq or not earlier):
            for key in keys:
                known.setdefault(key, f"a{other}")
    for node in tree.nodes:
        own = node.author == holder
        if own and node.origin is None:
            known[shown.source_key(node.id)] = shown.OWN
        elif node.automatic:  # its hypothesis names the values that differ
            of = shown.source_key(node.parents[0])
            if of in known:
                known[shown.source_key(node.id)] = known[of]
        elif (
            node.ask is not None
            and node.origin is not None
            and shown.START in keys_by_ask.get(node.ask, ())
            and _as_given(store, session, node)
        ):
            known.setdefault(shown.source_key(node.id), f"a{node.ask}")
    known.pop(shown.START, None)  # each ask has its own
    return known


def _as_given(store: Store, session: str, start: Node) -> bool:
    """Whether a start is unchanged from the kernel that its ask showed."""
    assert start.ask is not None
    kernel = store.asks.get(session, start.ask).start
    return kernel is not None and kernel.candidate == start.candidate


async def build(
    shared: Shared,
    record: SessionRecord,
    task: Task,
    tree: Tree,
    expansion: Expansion,
    seq: int,
    reader: Reader,
    report: MachineReport | None = None,
) -> BuiltAsk:
    """Build context and data for an ask of this seq."""
    store = await shared.store()
    spent = await shared.thread(store.sessions.spent, record.id)
    executor = shared.pool.get(record.python)
    if report is None:
        report = shared.pool.known_report(executor)
    environment = (
        report.environment
        if report
        else shared.pool.environment(executor, record.target, record.language)
    )
    gathered = await shared.thread(
        _gather, shared, store, record, task, tree, expansion, reader, environment
    )
    material = Material(
        session=record.id,
        ask=expansion.asked(seq),
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
        elsewhere=gathered.elsewhere,
        tried=_tried(tree, gathered.parents),
        searched=searched(tree)[:STRUCTURES],
        start=gathered.start,
        excerpts=gathered.passages.new,
        pages_again=gathered.passages.again,
        similar=gathered.similar,
        had=reader.had,
        say=reader.say,
    )
    if reader.max_tokens is None:
        material, _ = _within(material, reader.text_tokens // 2)
        text_tokens = reader.text_tokens
    else:  # both halves together, the text getting at least one of them
        material, data_tokens = _within(material, reader.max_tokens // 2)
        text_tokens = max(reader.max_tokens // 2, reader.max_tokens - data_tokens)
    context = build_context(material, text_tokens)
    # some may not have fitted
    there = (e.page_id for e in gathered.passages.new if f" ({e.page_id})" in context.text)
    return BuiltAsk(context, tuple(there))


@dataclass(frozen=True)
class _Gathered:
    parents: tuple[Parent, ...]
    history: tuple[Node, ...]
    elsewhere: tuple[Node, ...]
    start: Start | None
    passages: Passages
    similar: tuple[SimilarStart, ...]
    best: Candidate | None


def _gather(
    shared: Shared,
    store: Store,
    record: SessionRecord,
    task: Task,
    tree: Tree,
    expansion: Expansion,
    reader: Reader,
    environment: Environment | None,
) -> _Gathered:
    parents = []
    for node_id in expansion.parents:
        node = tree.by_id[node_id]
        parents.append(
            Parent(
                node,
                store.candidates.get(node.candidate),
                store.evaluations.get(record.id, node.evaluation).evaluation,
            )
        )
    start = None
    if (origin := expansion.start) is not None:
        start = Start(store.candidates.get(origin.candidate), origin.origin, origin.note)
    seen = history(tree, expansion)
    passages = Passages()
    if expansion.role != "start":
        size = min(EXCERPT_CHARACTERS, 4 * (reader.max_tokens or reader.text_tokens) // 10)
        situation = _situation(record, task, tree, expansion, parents, environment)
        passages = choose(shared.library(), situation, reader.had or {}, size)
    best = tree.best()  # if it is a parent, its text is already there
    text = (
        store.candidates.get(best.candidate)
        if best is not None and best.id not in expansion.parents
        else None
    )
    similar = experience.shown(store, expansion)
    return _Gathered(
        tuple(parents),
        _in_order(tree, [n for i in seen.shown if not (n := tree.by_id[i]).automatic]),
        _in_order(tree, [tree.by_id[i] for i in seen.elsewhere]),
        start,
        passages,
        similar,
        text,
    )


def _in_order(tree: Tree, nodes: Sequence[Node]) -> tuple[Node, ...]:
    """The correct nodes best first, then the others newest first."""
    failed = sorted((n for n in nodes if n.failed), key=lambda n: -n.seq)
    return (*tree.in_order(n for n in nodes if not n.failed), *failed)


def _situation(
    record: SessionRecord,
    task: Task,
    tree: Tree,
    expansion: Expansion,
    parents: list[Parent],
    environment: Environment | None,
) -> Situation:
    signals = [s for p in parents if p.evaluation is not None for s in ranked(p.evaluation.signals)]
    return Situation(
        task,
        exact_target(record.target, environment),
        record.language,
        expansion.role,
        max((tree.depth(p.node.id) for p in parents), default=0),
        tuple(dict.fromkeys(s.name for s in signals)),
        " ".join(s.message for s in signals[:2]),
        features(record.target, environment),
    )


def _tried(tree: Tree, parents: tuple[Parent, ...]) -> tuple[Node, ...]:
    """All attempts to keep, those of the parents' structures and then the newest preferred; in the
    order of insertion."""
    structures = {p.node.structure for p in parents}
    order = sorted(tree.nodes, key=lambda n: (n.structure not in structures, -n.seq))[:MAX_ROWS]
    return tuple(sorted(order, key=lambda n: n.seq))


def _within(material: Material, max_tokens: int) -> tuple[Material, int]:
    """The material with as many rows of `tried` as fit, and the size of its data in tokens."""
    size = _size(material)
    if size <= max_tokens or not material.tried:
        return material, size
    rows = len(material.tried)
    bare = _size(replace(material, tried=(), history=()))
    keep = max(0, int(rows * (max_tokens - bare) / max(1, size - bare)))
    structures = {p.node.structure for p in material.parents}
    order = sorted(material.tried, key=lambda n: (n.structure not in structures, -n.seq))[:keep]
    kept = replace(
        material, tried=tuple(sorted(order, key=lambda n: n.seq)) or material.history[-1:]
    )
    return kept, _size(kept)


def _size(material: Material) -> int:
    return estimate_tokens(json.dumps(ask_data(material).as_json()))
