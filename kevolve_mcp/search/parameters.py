"""Parameter search: which node's TUNABLES to try next without an author, how much of the budget
that may take, and what it found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.types import Budget, Spent

from .node import Node
from .termination import room
from .tree import Ask, Tree

SETTINGS = 8  # tried per structure: beyond them its author may know better
# fraction of the best node's known F: parameters rarely make up for more, and another structure
# deserves the time
BEHIND = 0.5


@dataclass(frozen=True)
class Searched:
    """The results of parameter search for one structure. node: the node whose parameters were
    searched. settings: the number tried. best: the best correct node among them, None without
    one."""

    node: Node
    settings: int
    best: Node | None


def next_to_tune(tree: Tree) -> Node | None:
    """Return the node whose parameters to search next: the best of its structure, correct and
    timed, not far behind the best, with untried settings; None where there is none."""
    best = tree.best()
    seen: set[str] = set()
    for node in tree.frontier():
        if node.family in seen:
            continue
        seen.add(node.family)
        tried = sum(n.automatic for n in tree.families[node.family])
        if (
            node.tunables
            and best is not None
            and tree.known[node.id] >= BEHIND * tree.known[best.id]
            and tried < SETTINGS
            and tree.untried(node.id)
        ):
            return node
    return None


def affordable(
    own: Sequence[Node],
    share: float,
    budget: Budget,
    spent: Spent,
    open_asks: Sequence[Ask],
    measuring: int = 0,
) -> bool:
    """Return whether one more node beside `own` fits into `share` of each limit of the budget,
    beside open asks and running measurements (see `room`)."""
    if share <= 0 or budget.exceeded(spent) is not None:
        return False
    left = room(budget, spent, open_asks, measuring)
    if left == 0 or (budget.evaluations is not None and len(own) + 1 > share * budget.evaluations):
        return False
    return (budget.seconds is None or sum(n.seconds for n in own) < share * budget.seconds) and (
        budget.device_seconds is None
        or sum(n.device_seconds for n in own) < share * budget.device_seconds
    )


def searched(tree: Tree) -> tuple[Searched, ...]:
    """Return the results of each searched structure, the last searched first."""
    rows = []
    for family in tree.families.values():
        own = [n for n in family if n.automatic]
        if own:
            node = tree.by_id[own[0].parents[0]]
            best = tree.ranked(n for n in own if not n.failed and n.score > 0)
            rows.append((own[-1].seq, Searched(node, len(own), best[0] if best else None)))
    return tuple(each for _, each in sorted(rows, key=lambda row: -row[0]))
