"""Tree search with upper confidence bounds (UCT)."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from harness.types import Spent

from ..memory import PATIENCE
from ..node import Node
from ..tree import ROOT, Ask, Expansion, Tree
from . import moves
from .base import SelectionPolicy
from .moves import PolicyView


@dataclass(frozen=True)
class TreeSearch(SelectionPolicy):
    """Drafts until something is correct; then a walk from the root that at each node goes on to the
    child of the highest bound

        (best F known below the child, scaled to 0..1 over the tree) + exploration * sqrt(ln(visits
        of node) / visits of child)

    and expands the first node with fewer than `width` attempts, or the one where the walk ends.
    Visits are the nodes below plus the asks under way there (virtual loss). Failed nodes are passed
    through: a fixed failure is a child of the nearest correct node above. The value is the best
    below and not the mean, since the search is for one good kernel.

    All statistics are derived from the tree; nothing is stored. exploration 0.25 as in AIRA (arXiv
    2507.02554); the other options are those of the greedy policy.
    """

    name: ClassVar[str] = "mcts"

    drafts: int = 5
    width: int = 3
    exploration: float = 0.25
    repair_share: float = 0.5
    repair_limit: int = 3
    tune_limit: int = 6
    patience: int = PATIENCE

    def __post_init__(self) -> None:
        moves.check_options(
            self, ("repair_share",), ("drafts", "width", "repair_limit", "tune_limit", "patience")
        )
        if self.exploration < 0:
            raise ValueError(f"exploration must not be negative, got {self.exploration!r}")

    def without_tuning(self) -> TreeSearch:
        return replace(self, tune_limit=0)

    def select(
        self, tree: Tree, open_asks: Sequence[Ask], rng: random.Random, spent: Spent, n: int
    ) -> list[Expansion]:
        view = PolicyView.of(tree, open_asks, self.patience)
        offspring = _offspring(tree)
        chosen: list[Expansion] = []
        for _ in range(n):
            chosen.append(self._next(view, offspring, rng))
            view = view.plus(chosen[-1])
        return chosen

    def _next(
        self, view: PolicyView, offspring: dict[str, list[Node]], rng: random.Random
    ) -> Expansion:
        ranked = view.tree.frontier()
        broken = moves.repairs(view, self.repair_limit)
        drafting = moves.drafts_due(view, self.drafts)
        if broken and (not (ranked or drafting) or rng.random() < self.repair_share):
            return moves.repair(view, broken[0], self.repair_limit)
        if drafting:
            return moves.draft(view, "no candidate is correct yet to build on")
        if ranked:
            walked = self._walk(view, offspring)
            for node in (walked, *ranked):
                move = moves.expand(view, node, ranked, self.tune_limit)
                if move is not None:
                    return move
        return moves.draft(view, "all moves on existing nodes are already in progress")

    def _walk(self, view: PolicyView, offspring: dict[str, list[Node]]) -> Node:
        """Walk from ROOT to the node to expand. There is at least one correct node."""
        visits, values = _statistics(view, offspring)
        low, high = min(values.values()), max(values.values())

        def bound(node: Node, parent: str) -> float:
            value = (values[node.id] - low) / (high - low) if high > low else 0.0
            return value + self.exploration * math.sqrt(math.log(visits[parent]) / visits[node.id])

        here = ROOT
        while offspring.get(here):
            above = here
            best = max(offspring[here], key=lambda n: (bound(n, above), -n.seq))
            here = best.id
            if len(view.tree.children(here)) + view.load.get(here, 0) < self.width:
                break
        return view.tree.by_id[here]


def _offspring(tree: Tree) -> dict[str, list[Node]]:
    """Correct nodes by the nearest correct node above them along first parents, ROOT where there is
    none."""
    above: dict[str, str] = {}
    offspring: dict[str, list[Node]] = {}
    for node in tree.nodes:
        parent = node.parents[0] if node.parents else ROOT
        above[node.id] = (
            parent if parent == ROOT or not tree.by_id[parent].failed else above[parent]
        )
        if not node.failed:
            offspring.setdefault(above[node.id], []).append(node)
    return offspring


def _statistics(
    view: PolicyView, offspring: dict[str, list[Node]]
) -> tuple[dict[str, int], dict[str, float]]:
    """Visits (correct nodes, failed children and open asks at and below a node) and the best F
    known there, by node id."""
    visits: dict[str, int] = {}
    values: dict[str, float] = {}
    for node in reversed(view.tree.nodes):
        if not node.failed:
            below = offspring.get(node.id, ())
            lost = sum(1 for child in view.tree.children(node.id) if child.failed)
            visits[node.id] = (
                1 + lost + view.load.get(node.id, 0) + sum(visits[n.id] for n in below)
            )
            values[node.id] = max([view.tree.known[node.id], *(values[n.id] for n in below)])
    visits[ROOT] = sum(visits[n.id] for n in offspring.get(ROOT, ()))
    return visits, values
