"""Memory operators: the part of the tree that the author of the next candidate sees, and the rule
that chooses an operator.

none: no kernel, a clean slate. parent: the trajectory from the root to the parent. siblings: the
earlier children of the same parents. both: the two together. Failures within an operator's scope
are never left out: they are negative memory. An author that sees any node also gets a short summary
of the rest of the tree; for a draft the summary is all, so that the draft is of another kind.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .node import Node, Role
from .tree import ROOT, Ask, Expansion, MemoryOperator, Tree

PATIENCE = 8  # evaluated nodes without progress before the stagnation rule sets in


@dataclass(frozen=True)
class History:
    """Node ids, each list in the order of insertion.

    trajectory: from the root to the parent, inclusive; for two parents, both trajectories.
    siblings: earlier children of the same parents (for a draft, the other roots). failures: the
    failed nodes of both lists and failed attempts that branch off the trajectory. elsewhere: the
    best correct node of every other lineage, and all other failures of authors.
    """

    trajectory: tuple[str, ...] = ()
    siblings: tuple[str, ...] = ()
    failures: tuple[str, ...] = ()
    elsewhere: tuple[str, ...] = ()

    @property
    def shown(self) -> tuple[str, ...]:
        """Return every node that the author sees in full, once."""
        return tuple(dict.fromkeys((*self.trajectory, *self.siblings, *self.failures)))


def history(tree: Tree, expansion: Expansion) -> History:
    """Apply the expansion's memory operator. Parents that the tree does not hold are an error
    (KeyError)."""
    for parent in expansion.parents:
        tree.by_id[parent]
    if expansion.memory == "none" and expansion.role != "draft":
        return History()
    path: set[str] = set()
    siblings: set[str] = set()
    if expansion.memory in ("parent", "both"):
        path = {n.id for parent in expansion.parents for n in tree.trajectory(parent)}
    if expansion.memory in ("siblings", "both"):
        siblings = {
            n.id for parent in expansion.parents or (ROOT,) for n in tree.children(parent)
        } - path
    dead_ends = {child.id for node in path for child in tree.children(node)}
    failures = {n for n in path | siblings | dead_ends if tree.by_id[n].failed}
    rest = _elsewhere(tree, expansion.parents, path | siblings | failures)
    return History(
        *(
            tuple(sorted(ids, key=lambda i: tree.by_id[i].seq))
            for ids in (path, siblings, failures, rest)
        )
    )


def _elsewhere(tree: Tree, parents: Sequence[str], shown: set[str]) -> set[str]:
    """The best node of each other lineage, and other failures. A lineage is a branch off the
    trajectories of the parents, or another root with its descendants, without the settings that
    parameter search tried."""
    own = {n.id for parent in parents for n in tree.trajectory(parent)}
    lineages: dict[str, list[Node]] = {}
    for node in tree.nodes:
        if node.id not in own and not node.failed:
            head = next(n for n in tree.trajectory(node.id) if n.id not in own)
            lineages.setdefault(head.id, []).append(node)
    best = {
        tree.ranked(nodes)[0].id
        for nodes in lineages.values()
        if not all(n.automatic for n in nodes)
    }
    failed = {n.id for n in tree.nodes if n.failed and not n.automatic and n.id not in own}
    return (best | failed) - shown


def decide(
    tree: Tree,
    parents: Sequence[str],
    role: Role,
    *,
    stalled_for: int = 0,
    open_asks: Sequence[Ask] = (),
    patience: int = PATIENCE,
) -> MemoryOperator:
    """The memory operator for the next child of `parents` in `role`.

    Drafts and starts see nothing. A repair sees the trajectory to the failure, and earlier attempts
    to fix it. Tuning sees which settings were tried. A crossover sees both trajectories. An
    improvement sees the trajectory and the parent's children, so that the author does not repeat
    them.

    Stagnation: once `stalled_for` nodes (comparison.stalled_for) reach `patience`, improvements
    alternate between a clean slate, siblings without the trajectory, and both. Open asks advance
    the turn, so that authors who ask at once do not all get the same operator.
    """
    if role in ("draft", "start"):
        return "none"
    if role == "tune":
        return "siblings"
    if role == "crossover":
        return "parent"
    crowded = any(tree.children(p) for p in parents)
    if role == "improve" and stalled_for >= patience:
        turns: tuple[MemoryOperator, ...] = ("none", "siblings", "both")
        return turns[(stalled_for - patience + len(open_asks)) % len(turns)]
    return "both" if crowded else "parent"
