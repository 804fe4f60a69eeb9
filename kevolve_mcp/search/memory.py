"""Memory operators: what of the tree the author of the next candidate sees, and the rule that
chooses among them.

none: nothing, a clean slate. parent: the trajectory from the root to the parent. siblings: what was
already made from the same parents. both: the two together. Failures are never left out of what an
operator covers: they are negative memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .node import Role
from .tree import ROOT, Ask, Expansion, MemoryOperator, Tree

PATIENCE = 8  # evaluated nodes without progress before the stagnation rule sets in


@dataclass(frozen=True)
class History:
    """Node ids, each list in the order of insertion.

    trajectory: root to parent, the parent included; for two parents, both trajectories. siblings:
    earlier children of the same parents (for a draft, the other roots). failures: what did not
    work, namely the failed nodes of both lists and the failed attempts that left the trajectory.
    """

    trajectory: tuple[str, ...] = ()
    siblings: tuple[str, ...] = ()
    failures: tuple[str, ...] = ()

    @property
    def shown(self) -> tuple[str, ...]:
        """Every node the author sees, once."""
        return tuple(dict.fromkeys((*self.trajectory, *self.siblings, *self.failures)))


def history(tree: Tree, expansion: Expansion) -> History:
    """Apply the expansion's memory operator. Parents that the tree does not hold are an error
    (KeyError)."""
    for parent in expansion.parents:
        tree.by_id[parent]
    if expansion.memory == "none":
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
    return History(
        *(tuple(sorted(ids, key=lambda i: tree.by_id[i].seq)) for ids in (path, siblings, failures))
    )


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

    Drafts and starts see nothing. A repair sees the way to the failure, and after a failed attempt
    also that attempt. Tuning sees which settings were tried. A crossover sees both ways. An
    improvement sees the trajectory, and as soon as the parent has children those too, lest the
    author repeat them.

    Stagnation: once `stalled_for` nodes (fitness.stalled_for) reach `patience`, improvements take
    turns between a clean slate, siblings without the trajectory that led here, and both. Open asks
    move the turn on, so that several authors who ask at once are not all sent the same way.
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
