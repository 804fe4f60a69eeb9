"""Making asks: the policy selects, memory and knowledge are gathered, a context is built and stored
with the ask."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from harness.types import Budget, Task
from kevolve_mcp import api
from kevolve_mcp.actions import Action, Say, plainly
from kevolve_mcp.errors import Conflict, UsageError
from kevolve_mcp.search import (
    Ask,
    AuthorId,
    Tree,
    ask_random,
    create_policy,
    figures,
    room,
    terminate,
)
from kevolve_mcp.store import Demand, Owner, SessionRecord, Store
from kevolve_mcp.store.owner import alive, this_process
from kevolve_mcp.synthesis.ask import AskContext

from . import experience, gathering, looking
from .gathering import Reader
from .shared import Shared, UseCase

RETRIES = 5  # another process may ask at the same time


@dataclass(frozen=True)
class _Call:
    """One call of `Asking.next`. holder: the author that asks. whole: whether the asks go to
    authors that have seen nothing, so that nothing is left out."""

    shared: Shared
    store: Store
    record: SessionRecord
    task: Task
    holder: AuthorId
    whole: bool
    max_tokens: int | None
    say: Say


class Asking(UseCase):
    async def next(
        self,
        session_id: str,
        *,
        count: int = 1,
        ask_id: str = "",
        fresh: bool = False,
        max_tokens: int | None = None,
        author: str = "",
        budget: Budget | None = None,
        say: Say = plainly,
    ) -> api.AskBatch:
        """Return the author's open ask again, else new asks, or why the search has ended.

        Args:
            session_id: The session.
            count: Above 1, this many new asks for concurrent authors.
            ask_id: The ask to return again.
            fresh: Whether to give an author that has seen nothing of this session a further ask
                with nothing left out.
            max_tokens: The size of text and data together; None for the usual size.
            author: The author's name; equal names are one author, who has read what it was given.
            budget: Replaces the session's budget.
            say: Renders a call in the ask's text.

        Raises:
            NotFound, Conflict, UsageError.
        """
        await self._check_opened(session_id)
        shared = self._shared
        store = await shared.store()
        record = await shared.thread(store.sessions.get, session_id)
        task = await shared.thread(store.tasks.get, record.task)
        several = fresh or count > 1
        share = None if max_tokens is None else max_tokens // count
        caller = holder(author)
        call = _Call(shared, store, record, task, caller, several, share, say)
        if ask_id:
            return await _reread(call, ask_seq(ask_id))
        if record.state != "open":
            raise Conflict(
                f"session {record.id} is {record.state}: {record.reason}",
                "",
                Action("open_another", "opens another session"),
            )
        if budget is not None:
            call = replace(
                call, record=await shared.thread(store.sessions.set_budget, record.id, budget)
            )
        if not several:
            await shared.background.first_start(record.id)
        async with shared.asking(record.id):
            batch = await _ask(call, count)
        if batch.asks:
            shared.background.wake(record.id)
        return batch


async def _ask(call: _Call, count: int) -> api.AskBatch:
    shared, store, record = call.shared, call.store, call.record
    await shared.thread(_free_abandoned, store, record.id)
    tree = await shared.thread(shared.trees.load, store, record.id)
    demand = await shared.thread(store.sessions.demand, record.id)
    best = tree.best()
    cases = (
        (await shared.thread(store.evaluations.get, record.id, best.evaluation)).evaluation.cases
        if best
        else ()
    )
    over = terminate(
        tree,
        record.goal,
        record.budget,
        demand.spent,
        best=figures(cases),
        open_asks=demand.waiting,
    )
    if over is not None:
        return api.AskBatch(await looking.session(shared, record), (), over.reason, over.sentence)
    if not call.whole and (open_ask := await _own(call, tree, demand)) is not None:
        return api.AskBatch(
            await looking.session(shared, record),
            (await _stored(call, tree, open_ask, repeated=True),),
        )
    if await _gave_way(call, demand, count):
        return await _ask(call, count)
    views: list[api.Ask] = []
    while len(views) < count:
        free = await _take_free(call, tree, frozenset(v.context.id for v in views))
        if free is None:
            break
        views.append(await _handed_over(call, tree, free))
    for _ in range(count - len(views)):
        made = await _make(call, frozenset(v.context.id for v in views))
        if made is None:
            break
        views.append(made)
    return api.AskBatch(await looking.session(shared, record), tuple(views))


async def _gave_way(call: _Call, demand: Demand, count: int) -> bool:
    """Whether parameter search gave up its current setting because it and these asks do not both
    fit the budget: authors come first. The setting may have been recorded meanwhile, so the caller
    must look again."""
    session, background = call.record.id, call.shared.background
    left = _room(call, demand, demand.waiting, frozenset())
    under_way = background.under_way(session)
    if not under_way or left is None or left >= count + under_way:
        return False
    await background.stop(session)
    return True


async def _own(call: _Call, tree: Tree, demand: Demand) -> Ask | None:
    """The ask that this author holds and has neither answered nor put aside, with its lease
    renewed."""
    own = [
        a
        for a in demand.waiting
        if a.author == call.holder and a.seq not in demand.asks_measured and not put_aside(tree, a)
    ]
    if not own:
        return None
    take = call.store.asks.take
    return await call.shared.thread(
        take, call.record.id, own[-1].seq, author=call.holder, lease_s=LEASE_S
    )


async def _make(call: _Call, taken: frozenset[str]) -> api.Ask | None:
    """One new ask; None when the policy waits for the open ones, or the budget is reserved."""
    shared, store, record = call.shared, call.store, call.record
    policy = create_policy(record.selection)
    # an author that has seen nothing of the session may only compute parameters
    if record.options.tune and not call.whole:
        policy = policy.without_tuning()
    for _ in range(RETRIES):
        tree = await shared.thread(shared.trees.load, store, record.id)
        demand = await shared.thread(store.sessions.demand, record.id)
        waiting = [a for a in demand.waiting if not put_aside(tree, a)]
        if _room(call, demand, waiting, taken) == 0:
            return None
        seq = await shared.thread(store.asks.next_seq, record.id)
        chosen = policy.select(tree, waiting, ask_random(record.seed, seq), demand.spent, 1)
        if not chosen:
            return None
        expansion = await shared.thread(
            experience.inspired, store, record, call.task, chosen[0], seq
        )
        built = await gathering.build(
            shared, record, call.task, tree, expansion, seq, await _reader(call, tree, seq)
        )
        try:
            ask = await shared.thread(
                store.asks.add,
                record.id,
                expansion,
                built.context.text,
                author=call.holder,
                lease_s=LEASE_S,
                seq=seq,
                skills=built.skills,
                held=built.context.held,
            )
        except Conflict:
            continue  # another process took this seq: try again
        return _view(tree, ask, built)
    raise Conflict(
        f"too many callers ask session {record.id} at the same time",
        "Ask again.",
        Action("next_ask", session=record.id),
    )


def _room(call: _Call, demand: Demand, waiting: Sequence[Ask], taken: frozenset[str]) -> int | None:
    """How many more asks fit the budget beside running measurements and asks that others may still
    answer. An author that requests a further ask gives up its earlier ones, unless they are being
    evaluated: an ask for which it had no proposal must not block it. taken: ids of asks of this
    call."""
    others = [
        a
        for a in waiting
        if a.seq not in demand.asks_measured and (a.author != call.holder or a.id in taken)
    ]
    return room(call.record.budget, demand.spent, others, len(demand.measuring))


async def _reread(call: _Call, seq: int) -> api.AskBatch:
    """An ask as it was given. For an author it was not given to, or for another size, it is written
    anew with nothing left out."""
    ask = await call.shared.thread(call.store.asks.get, call.record.id, seq)
    tree = await call.shared.thread(call.shared.trees.load, call.store, call.record.id)
    if call.whole or call.max_tokens is not None or ask.author != call.holder:
        view = await _written(call, tree, ask, Reader(None, call.max_tokens, call.say))
    else:
        view = await _stored(call, tree, ask)
    return api.AskBatch(await looking.session(call.shared, call.record), (view,))


async def _stored(call: _Call, tree: Tree, ask: Ask, *, repeated: bool = False) -> api.Ask:
    """An ask with the text given to its author."""
    text = await call.shared.thread(call.store.asks.shown, call.record.id, ask.seq)
    view = await _written(
        call, tree, ask, await _reader(call, _then(tree, ask), ask.seq, earlier=True)
    )
    return replace(view, context=AskContext.parse(view.context.as_json(), text), repeated=repeated)


async def _handed_over(call: _Call, tree: Tree, ask: Ask) -> api.Ask:
    """A formerly free ask, written for the author that took it, from the current tree."""
    built = await _built(call, tree, ask, await _reader(call, tree, ask.seq))
    await call.shared.thread(
        call.store.asks.rewrite,
        call.record.id,
        ask.seq,
        built.context.text,
        author=call.holder,
        held=built.context.held,
    )
    return _view(tree, ask, built)


async def _written(call: _Call, tree: Tree, ask: Ask, reader: Reader) -> api.Ask:
    """Text and data from the tree at the time when the ask was made."""
    return _view(tree, ask, await _built(call, _then(tree, ask), ask, reader))


async def _built(call: _Call, tree: Tree, ask: Ask, reader: Reader) -> gathering.BuiltAsk:
    return await gathering.build(
        call.shared, call.record, call.task, tree, ask.expansion, ask.seq, reader
    )


def _view(tree: Tree, ask: Ask, built: gathering.BuiltAsk) -> api.Ask:
    return api.ask(tree, ask, built.context.ask, built.pages)


async def _reader(call: _Call, tree: Tree, seq: int, *, earlier: bool = False) -> Reader:
    if call.whole:
        return Reader(None, call.max_tokens, call.say)
    had = await call.shared.thread(
        gathering.had, call.store, tree, call.record.id, call.holder, seq=seq, earlier=earlier
    )
    return Reader(had, call.max_tokens, call.say)


def _then(tree: Tree, ask: Ask) -> Tree:
    return Tree(
        tuple(n for n in tree.nodes if n.created <= ask.created),
        tuple(a for a in tree.asks if a.seq <= ask.seq),
    )


def _free_abandoned(store: Store, session: str) -> None:
    for ask in store.asks.open(session):
        if abandoned(ask):
            store.asks.release(session, ask.seq, author=ask.author)


async def _take_free(call: _Call, tree: Tree, taken: frozenset[str]) -> Ask | None:
    """An ask that nobody holds, is answering or has put aside; None without one, or where the
    budget is reserved. An author that can build on something leaves starts to the server, which
    evaluates them while it writes."""
    demand = await call.shared.thread(call.store.sessions.demand, call.record.id)
    aside = frozenset(a.seq for a in tree.asks if put_aside(tree, a))
    left_to_server = not call.whole or call.shared.background.takes_starts(call.record.id)
    if left_to_server and any(not n.failed for n in tree.nodes):
        aside |= {a.seq for a in tree.asks if a.role == "start"}
    waiting = [a for a in demand.waiting if a.seq not in aside]
    if _room(call, demand, waiting, taken) == 0:
        return None
    take = call.store.asks.take_expired
    return await call.shared.thread(
        take,
        call.record.id,
        author=call.holder,
        lease_s=LEASE_S,
        without=aside | demand.asks_measured,
    )


def ask_seq(ask_id: str) -> int:
    """Return the seq of an ask id: 12 for "a12". Raises UsageError."""
    if not (ask_id[:1] == "a" and ask_id[1:].isdigit()):
        raise UsageError(
            f"{ask_id!r} is not an ask id",
            'Ask ids look like "a7".',
            Action("next_ask", "gives them"),
        )
    return int(ask_id[1:])


LEASE_S = 900.0  # an agent may take long; asks of a dead process are freed without waiting for it


def holder(name: str) -> AuthorId:
    """Return the identity under which this process takes asks for a client of this name."""
    owner = this_process()
    return AuthorId(name, owner.host, owner.pid, owner.started)


def abandoned(ask: Ask) -> bool:
    """Return whether the process that took an ask is known to be dead."""
    by = ask.author
    return bool(by.host) and alive(Owner(by.host, by.pid, by.started)) is False


def put_aside(tree: Tree, ask: Ask) -> bool:
    """Return whether the author of an ask went on without it: since taking it, it submitted a
    kernel that answers no ask."""
    since = ask.created if ask.taken is None else ask.taken
    return any(n.ask is None and n.created > since and n.author == ask.author for n in tree.nodes)
