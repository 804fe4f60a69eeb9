"""The moves of the built-in policies: draft, repair, improve, tune, crossover.

A policy chooses a move; this module turns it into an expansion (memory operator, annotations,
reason).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from kevolve_mcp.quantities import times

from ..comparison import stalled_for
from ..memory import PATIENCE, decide
from ..node import Node
from ..tree import Ask, Expansion, MemoryOperator, Tree

# Names under which policies annotate asks.
PHASE, DRAFT, ISLAND, GENERATION, MIGRATED_FROM = (
    "phase",
    "draft",
    "island",
    "generation",
    "migrated_from",
)

BESIDES: tuple[MemoryOperator, ...] = ("both", "parent", "siblings")
# How far a failed candidate came, to choose what to repair. A reward hack is never repaired, and a
# candidate that needs a review waits for it.
_PROGRESS = {"invalid": 0, "build_failed": 1, "crashed": 2, "timed_out": 2, "incorrect": 3}


@dataclass(frozen=True)
class PolicyView:
    """What a policy sees: the tree, the open asks, and its earlier choices in the same call (as
    open asks).

    stalled_for: evaluated nodes without progress, in the whole tree or in the part that a policy
    considers.
    """

    tree: Tree
    pending: tuple[Ask, ...] = ()
    stalled_for: int = 0
    patience: int = PATIENCE

    @classmethod
    def of(cls, tree: Tree, open_asks: Sequence[Ask], patience: int) -> PolicyView:
        answered = tree.answered()
        return cls(
            tree,
            tuple(a for a in open_asks if a.seq not in answered),
            stalled_for(tree.nodes),
            patience,
        )

    def plus(self, chosen: Expansion) -> PolicyView:
        """Return this view with one more expansion in progress."""
        ask = Ask(
            seq=0,
            parents=chosen.parents,
            memory=chosen.memory,
            role=chosen.role,
            annotations=chosen.annotations,
        )
        return replace(self, pending=(*self.pending, ask))

    @cached_property
    def load(self) -> dict[str, int]:
        """Return the number of open asks by parent id."""
        asks: dict[str, int] = {}
        for ask in self.pending:
            for parent in ask.parents:
                asks[parent] = asks.get(parent, 0) + 1
        return asks

    def under_way(self, move: Expansion) -> bool:
        """Return whether an open ask is the same move. Drafts are independent samples and never the
        same."""
        return move.role != "draft" and any(
            (a.parents, a.memory, a.role) == (move.parents, move.memory, move.role)
            for a in self.pending
        )


@dataclass(frozen=True)
class Repair:
    """A line of failures that is not fixed yet. node: the one that came furthest. worth: the
    standing of the node it derives from (1, the baseline's, for a draft or start). attempts: the
    number of repairs tried."""

    node: Node
    worth: float
    attempts: int


def draft(view: PolicyView, why: str, phase: str = "draft", **notes: Any) -> Expansion:
    """Return an independent sample: no parents, no memory."""
    numbers = [
        a.annotations.get(DRAFT) for a in (*view.tree.asks, *view.pending) if a.role == "draft"
    ]
    number = 1 + max((n for n in numbers if isinstance(n, int)), default=0)
    return Expansion((), "none", "draft", {PHASE: phase, DRAFT: number, **notes}, why)


def drafts_due(view: PolicyView, drafts: int) -> bool:
    """Return whether the draft phase goes on: until something is correct, and for at most `drafts`
    drafts. Correct nodes are extended from then on, whether they are starts, drafts or kernels
    submitted without an ask; a stalled search draws fresh samples anyway."""
    tree = view.tree
    handed_in = sum(
        1 for n in tree.nodes if n.role == "draft" or (not n.parents and n.role != "start")
    )
    made = handed_in + sum(1 for a in view.pending if a.role == "draft")
    return made < drafts and not any(not n.failed for n in tree.nodes)


def repairs(view: PolicyView, limit: int) -> list[Repair]:
    """Return what can be repaired, the most promising first: highest worth, fewest attempts,
    latest.

    Failed nodes that descend from one another without a success between them are one line. It is
    left out after the first success, after `limit` attempts, and while an attempt is in progress.
    """
    tree = view.tree
    lines: dict[str, list[Node]] = {}
    origin: dict[str, str] = {}
    for node in tree.nodes:
        # a setting that does not work is not a structure to fix
        if node.status in _PROGRESS and node.role != "tune":
            start = origin.get(node.parents[0], node.id) if node.parents else node.id
            origin[node.id] = start
            lines.setdefault(start, []).append(node)
    open_lines = []
    for start, line in lines.items():
        tries = [
            child
            for member in line
            for child in tree.children(member.id)
            if child.parents[0] == member.id
        ]
        fixed = any(not child.failed for child in tries)
        if (
            not fixed
            and len(tries) < limit
            and not any(view.load.get(member.id) for member in line)
        ):
            first = tree.by_id[start]
            worth = tree.known[first.parents[0]] if first.parents else 1.0
            furthest = max(line, key=lambda n: (_PROGRESS[n.status], n.seq))
            open_lines.append(Repair(furthest, worth, len(tries)))
    return sorted(open_lines, key=lambda r: (-r.worth, r.attempts, -r.node.seq))


def repair(view: PolicyView, chosen: Repair, limit: int, **notes: Any) -> Expansion:
    """Return a repair of a failed node. The author sees its trajectory and every earlier
    attempt."""
    node = chosen.node
    why = (
        f"{node.id} is {node.status.replace('_', ' ')}; attempt {chosen.attempts + 1} of {limit} "
        "to fix it"
    )
    return Expansion(
        (node.id,),
        decide(view.tree, (node.id,), "repair"),
        "repair",
        {PHASE: "expand", **notes},
        why,
    )


def tune_due(view: PolicyView, node: Node, limit: int) -> bool:
    """Return whether other parameters are due before another rewrite: untried settings are left,
    and it is tuning's turn.

    Tuning and rewriting alternate within a structure, tuning first in the structure of the best
    node, and a structure is tuned at most `limit` times.
    """
    members = {n.id for n in view.tree.families[node.family]}
    under_way = [a for a in view.pending if members.intersection(a.parents)]
    tuning = sum(1 for a in under_way if a.role == "tune")
    tuned = tuning + sum(1 for i in members if view.tree.by_id[i].role == "tune")
    left = view.tree.untried(node.id)
    children = {c.id for i in members for c in view.tree.children(i)} - members
    rewritten = len(children) + sum(1 for a in under_way if a.role in ("improve", "crossover"))
    best = view.tree.best()
    turn = rewritten - (0 if best is not None and best.id in members else 1)
    return tuned < limit and tuned <= turn and (left is None or left > tuning)


def tune(view: PolicyView, node: Node, **notes: Any) -> Expansion:
    """Return an expansion of the same structure with other parameters."""
    left = view.tree.untried(node.id)
    why = f"{node.id} at {times(node.score)} has parameters" + (
        f", {left} settings untried" if left is not None else ""
    )
    return Expansion(
        (node.id,),
        decide(view.tree, (node.id,), "tune"),
        "tune",
        {PHASE: "expand", **notes},
        why,
    )


def improve(
    view: PolicyView, node: Node, memory: MemoryOperator | None = None, **notes: Any
) -> Expansion:
    """Return an improvement of a node. Where the stagnation rule chooses the memory operator none,
    it is a fresh draft instead of a child."""
    chosen = memory or decide(
        view.tree,
        (node.id,),
        "improve",
        stalled_for=view.stalled_for,
        open_asks=view.pending,
        patience=view.patience,
    )
    if chosen == "none":
        why = (
            f"no progress in {view.stalled_for} candidates: a fresh start that sees none of the "
            "earlier attempts"
        )
        return draft(view, why, "restart", **notes)
    tries = len(view.tree.rewrites(node.id))
    why = f"{node.id} at {times(node.score)}, " + (
        f"{_children(tries)} so far" if tries else "not expanded yet"
    )
    best = view.tree.best()
    if best is not None and view.tree.known[best.id] > view.tree.known[node.id]:
        under_way = view.load.get(best.id, 0)
        why += f"; {best.id} leads, with {_children(len(view.tree.rewrites(best.id)))}" + (
            f" and {under_way} in progress" if under_way else ""
        )
    return Expansion((node.id,), chosen, "improve", {PHASE: "expand", **notes}, why)


def _children(count: int) -> str:
    return f"{count or 'no'} child{'' if count == 1 else 'ren'}"


def crossover(view: PolicyView, node: Node, other: Node, **notes: Any) -> Expansion:
    """Return a child of two parents that keeps what makes each of them fast."""
    both = " and ".join(f"{each.id} ({times(each.score)})" for each in (node, other))
    why = f"combine what makes {both} fast"
    parents = (node.id, other.id)
    return Expansion(
        parents,
        decide(view.tree, parents, "crossover"),
        "crossover",
        {PHASE: "expand", **notes},
        why,
    )


def partners(view: PolicyView, node: Node, pool: Sequence[Node]) -> list[Node]:
    """Return the nodes of `pool` worth crossing with `node`: of another structure, neither ancestor
    nor descendant, and not crossed with it yet."""
    tree = view.tree
    kin = tree.ancestors(node.id) | tree.descendants(node.id)
    pairs = [
        frozenset(p)
        for p in (*(n.parents for n in tree.children(node.id)), *(a.parents for a in view.pending))
    ]
    return [
        n
        for n in pool
        if n.family != node.family and n.id not in kin and frozenset((node.id, n.id)) not in pairs
    ]


def expand(
    view: PolicyView, node: Node, pool: Sequence[Node], tune_limit: int, **notes: Any
) -> Expansion | None:
    """Return the preferred move from a correct node that no open ask makes, None where all moves
    are in progress.

    Tuning comes first where it is due. A stalled search crosses the node with one of `pool` in the
    turns of the memory operator both. Otherwise it is an improvement, with another memory operator
    where the preferred one is taken.
    """
    step = improve(view, node, **notes)
    options = [step]
    if tune_due(view, node, tune_limit):
        options.insert(0, tune(view, node, **notes))
    elif view.stalled_for >= view.patience and step.memory == "both":
        options[:0] = [
            crossover(view, node, other, **notes) for other in partners(view, node, pool)[:1]
        ]
    options += [improve(view, node, memory, **notes) for memory in BESIDES]
    return next((move for move in options if not view.under_way(move)), None)


def check_options(options: object, shares: Sequence[str] = (), counts: Sequence[str] = ()) -> None:
    """Check that shares lie in 0..1 and counts are whole numbers from 0. Raises ValueError naming
    the option."""
    for name in shares:
        value = getattr(options, name)
        if not isinstance(value, (int, float)) or not 0 <= value <= 1:
            raise ValueError(f"{name} must be a number from 0 to 1, got {value!r}")
    for name in counts:
        value = getattr(options, name)
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise ValueError(f"{name} must be a whole number from 0, got {value!r}")
