"""Nodes: the tree of a session."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection, Row, ScalarSelect, exists, func, insert, select

from harness.types import eligible, fitness
from kevolve_mcp.errors import NotFound, UsageError
from kevolve_mcp.search.node import Node
from kevolve_mcp.search.tree import ROOT, Tree

from . import admission, notes, schema, spending
from .approvals import load_approvals
from .asks import ask_of
from .champions import refuted
from .engine import Database
from .evaluation_ids import names, row_id
from .evaluations import PROVED_WRONG, get_evaluation, insert_evaluation, signal_names
from .records import BudgetPlace, NewNode
from .rows import next_seq, number, session_row


class Nodes:
    """Nodes, insert-only. `add` is the checkpoint of a search: once it has returned, the node is
    durable."""

    def __init__(self, database: Database, clock: Callable[[], float]) -> None:
        self._database = database
        self._clock = clock

    def add(self, session: str, new: NewNode, place: BudgetPlace = "held") -> Node:
        """Insert evaluation (unless it is given by id), node and parents in one transaction, with
        the next seq.

        place: which place of the evaluation budget it takes, see `admission.admit_node`.

        Idempotent: the same candidate for the same ask, or without an ask under the same parents,
        returns the existing node and inserts nothing. Raises NotFound (session, ask,
        parent, evaluation), UsageError (an evaluation of another candidate or task; a candidate
        that was not put before), Conflict (the session is over), BudgetFull.
        """
        parents = tuple(dict.fromkeys(parent for parent in new.parents if parent != ROOT))
        with self._database.write() as connection:
            row = session_row(connection, session, lock=True)
            if (existing := self._same(connection, session, new, parents)) is not None:
                return existing
            session_row(connection, session, opened=True)
            self._check(connection, session, new, parents)
            seq, now = next_seq(connection, schema.nodes, "session", session), self._clock()
            spent = spending.evaluations(connection, session)
            connection.execute(
                insert(schema.nodes).values(
                    session=session,
                    seq=seq,
                    candidate=new.candidate,
                    evaluation=_evaluation(connection, session, row.task, new, now),
                    ask=new.ask,
                    role=new.role,
                    origin=notes.origin_text(new.origin),
                    hypothesis=new.hypothesis,
                    predicted_speedup=new.predicted_speedup,
                    rationale=new.rationale,
                    annotations=notes.of_new_node(new),
                    params=new.params,
                    structure=new.structure,
                    tokens=new.tokens,
                    usd=new.usd,
                    created=now,
                )
            )
            for position, parent in enumerate(parents):
                values = {
                    "session": session,
                    "seq": seq,
                    "position": position,
                    "parent": number(parent, "n"),
                }
                connection.execute(insert(schema.node_parents).values(values))
            for skill, how in new.skills.items():
                connection.execute(
                    insert(schema.skill_uses).values(
                        skill=skill, session=session, node=seq, how=how
                    )
                )
            admission.admit_node(connection, row, spent, place, now)
            return self._one(connection, session, seq)

    def get(self, session: str, node: str) -> Node:
        """Return a node. Raises NotFound. The root "n0" is not stored."""
        seq = number(node, "n")
        with self._database.read() as connection:
            nodes = load_nodes(connection, session, seq)
            if not nodes:
                raise _unknown(connection, session, node)
        return nodes[0]

    def tree(self, session: str) -> Tree:
        """Return a consistent snapshot of all nodes and asks. Raises NotFound."""
        with self._database.read() as connection:
            session_row(connection, session)
            asks = connection.execute(
                select(schema.asks)
                .where(schema.asks.c.session == session)
                .order_by(schema.asks.c.seq)
            )
            return Tree(load_nodes(connection, session), tuple(map(ask_of, asks)))

    @staticmethod
    def _one(connection: Connection, session: str, seq: int) -> Node:
        (node,) = load_nodes(connection, session, seq)
        return node

    def _same(
        self, connection: Connection, session: str, new: NewNode, parents: tuple[str, ...]
    ) -> Node | None:
        n = schema.nodes
        query = (
            select(n.c.seq)
            .where(n.c.session == session, n.c.candidate == new.candidate)
            .order_by(n.c.seq)
        )
        same_ask = n.c.ask.is_(None) if new.ask is None else n.c.ask == new.ask
        for seq in connection.execute(query.where(same_ask)).scalars().all():
            node = self._one(connection, session, seq)
            if new.ask is not None or node.parents == parents:
                return node
        return None

    @staticmethod
    def _check(
        connection: Connection, session: str, new: NewNode, parents: tuple[str, ...]
    ) -> None:
        n, a, c = schema.nodes, schema.asks, schema.candidates
        if not connection.execute(
            select(1).select_from(c).where(c.c.digest == new.candidate)
        ).first():
            raise UsageError(
                f"the candidate {new.candidate[:12]!r} is not in the store.",
                "Put the candidate first.",
            )
        for parent in parents:
            if not connection.execute(
                select(1)
                .select_from(n)
                .where(n.c.session == session, n.c.seq == number(parent, "n"))
            ).first():
                raise _unknown(connection, session, parent)
        if new.ask is None:
            return
        if not connection.execute(
            select(1).select_from(a).where(a.c.session == session, a.c.seq == new.ask)
        ).first():
            raise NotFound(
                f"session {session} has no ask a{new.ask}.",
                "A node needs no ask: it may be left out.",
            )


def load_nodes(connection: Connection, session: str, seq: int | None = None) -> tuple[Node, ...]:
    """Return the nodes of a session, or the one with `seq`, in the order of seq."""
    n, e, p = schema.nodes, schema.evaluations, schema.node_parents
    which = [n.c.session == session] + ([] if seq is None else [n.c.seq == seq])
    counts = counted()
    query = (
        select(
            n,
            e.c.id.label("counted"),
            e.c.status,
            e.c.fitness,
            e.c.eligible,
            refuted().label("refuted"),
        )
        .select_from(n)
        .join(e, e.c.id == counts)
    )
    rows = connection.execute(query.where(*which).order_by(n.c.seq)).all()
    links = (
        select(p.c.seq, p.c.parent).where(p.c.session == session).order_by(p.c.seq, p.c.position)
    )
    parents: dict[int, list[str]] = defaultdict(list)
    for child, parent in connection.execute(links if seq is None else links.where(p.c.seq == seq)):
        parents[child].append(f"n{parent}")
    signals = signal_names(connection, select(counts).where(*which))
    told = (each for row in rows for each in (row.counted, row.refuted) if each is not None)
    called = names(connection, told, session)
    nodes = tuple(
        _node(row, called, tuple(parents[row.seq]), signals.get(row.counted, ())) for row in rows
    )
    approvals = load_approvals(connection, session)
    return tuple(
        _approved(connection, session, node, approvals[node.id].author)
        if node.id in approvals
        else node
        for node in nodes
    )


def counted() -> ScalarSelect[int]:
    """Return the query for the evaluation whose figures a node has: its own, or, after it was
    measured again, the newest of the same key that its session paid for, which pools all samples
    and is not another node's own. What was proved wrong once stays so: of the session's evaluations
    of the key the newest with such a verdict counts."""
    n, first, newer, named = (
        schema.nodes,
        schema.evaluations.alias(),
        schema.evaluations.alias(),
        schema.nodes.alias(),
    )
    same_key = (
        select(func.max(newer.c.id))
        .where(newer.c.key == first.c.key, newer.c.session == n.c.session)
        .correlate(first, n)
    )
    wrong = same_key.where(newer.c.status.in_(PROVED_WRONG))
    again = same_key.where(newer.c.id > first.c.id).where(
        ~exists().where(named.c.session == n.c.session, named.c.evaluation == newer.c.id)
    )
    counts = func.coalesce(wrong.scalar_subquery(), again.scalar_subquery(), first.c.id)
    return select(counts).where(first.c.id == n.c.evaluation).correlate(n).scalar_subquery()


def _approved(connection: Connection, session: str, node: Node, author: str) -> Node:
    """The approved node, with its measured fitness if only the review was missing."""
    if node.status != "needs_review":
        return replace(node, approved_by=author)
    cases = get_evaluation(connection, session, node.evaluation).evaluation.cases
    return replace(
        node,
        approved_by=author,
        status="correct",
        fitness=fitness(cases),
        eligible=eligible(cases) and not node.refuted,
    )


def _node(
    row: Row[Any], called: dict[int, str], parents: tuple[str, ...], signals: tuple[str, ...]
) -> Node:
    """The node of a row. called: ids of evaluations by row id."""
    said = notes.of_node(row.annotations)
    return Node(
        id=f"n{row.seq}",
        seq=row.seq,
        parents=parents,
        candidate=row.candidate,
        evaluation=called[row.counted],
        status=row.status,
        fitness=row.fitness,
        eligible=row.eligible and row.refuted is None,
        signals=signals,
        ask=row.ask,
        role=row.role,
        author=said.author,
        origin=notes.origin_of(row.origin),
        hypothesis=row.hypothesis,
        predicted_speedup=row.predicted_speedup,
        rationale=row.rationale,
        annotations=said.annotations,
        params=row.params,
        structure=row.structure,
        created=row.created,
        met=said.met,
        refuted=called[row.refuted] if row.refuted is not None else "",
    )


def _evaluation(connection: Connection, session: str, task: str, new: NewNode, now: float) -> int:
    """The row id of the node's evaluation, which is inserted if it is new."""
    if isinstance(new.evaluation, str):
        fresh, evaluation = None, get_evaluation(connection, session, new.evaluation).evaluation
    else:
        fresh = evaluation = new.evaluation
    if evaluation.candidate != new.candidate or evaluation.task != task:
        what = "task" if evaluation.task != task else "candidate"
        raise UsageError(
            f"the evaluation belongs to another {what} than the node.",
            "Evaluate the node's candidate on the session's task.",
        )
    return (
        insert_evaluation(connection, fresh, session, now)
        if fresh
        else row_id(connection, session, str(new.evaluation))
    )


def _unknown(connection: Connection, session: str, node: str) -> NotFound:
    session_row(connection, session)
    last = next_seq(connection, schema.nodes, "session", session) - 1
    return NotFound(
        f"session {session} has no node {node}.",
        f"It has n1 to n{last}." if last else "It has no node yet.",
    )
