"""Best-first search."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from harness.types import Spent

from ..memory import PATIENCE
from ..node import Node
from ..tree import Ask, Expansion, Tree
from . import moves
from .base import SelectionPolicy
from .moves import PolicyView


@dataclass(frozen=True)
class Greedy(SelectionPolicy):
    """Drafts until something is correct; then always the best node, unless a failure is due for
    repair.

    Nodes are ranked by their standing (`ranking.standings`), discounted by `fatigue` for every
    rewrite that was no better than its parent, and by `virtual_loss` for every open ask on the
    node. A node that was expanded often without success makes room for the next best, but never for
    one that lost to it in the same rounds, nor for another setting of its own that is no better.
    A stalled search alternates between a clean slate, an improvement without the trajectory, and a
    crossover of two different structures.

    drafts: the most independent samples before something is correct. repair_share: the share of
    asks that repair a failure where one can be repaired. repair_limit: attempts on one line of
    failures. tune_limit: parameter trials per structure.
    patience: nodes without progress before the search counts as stalled. The paper names the policy
    and gives no values; these are ours.
    """

    name: ClassVar[str] = "greedy"

    drafts: int = 5
    repair_share: float = 0.5
    repair_limit: int = 3
    tune_limit: int = 6
    fatigue: float = 0.97
    virtual_loss: float = 0.9
    patience: int = PATIENCE

    def __post_init__(self) -> None:
        shares = ("repair_share", "fatigue", "virtual_loss")
        moves.check_options(self, shares, ("drafts", "repair_limit", "tune_limit", "patience"))

    def without_tuning(self) -> Greedy:
        return replace(self, tune_limit=0)

    def select(
        self, tree: Tree, open_asks: Sequence[Ask], rng: random.Random, spent: Spent, n: int
    ) -> list[Expansion]:
        view = PolicyView.of(tree, open_asks, self.patience)
        chosen: list[Expansion] = []
        for _ in range(n):
            chosen.append(self._next(view, rng))
            view = view.plus(chosen[-1])
        return chosen

    def _next(self, view: PolicyView, rng: random.Random) -> Expansion:
        ranked = self._ranked(view)
        broken = moves.repairs(view, self.repair_limit)
        drafting = moves.drafts_due(view, self.drafts)
        if broken and (not (ranked or drafting) or rng.random() < self.repair_share):
            return moves.repair(view, broken[0], self.repair_limit)
        if drafting:
            return moves.draft(view, "no candidate is correct yet to build on")
        for node in ranked:
            move = moves.expand(view, node, ranked, self.tune_limit)
            if move is not None:
                return move
        return moves.draft(view, "all moves on existing nodes are already in progress")

    def _ranked(self, view: PolicyView) -> list[Node]:
        tree, worth = view.tree, dict[str, float]()
        for node in tree.frontier():
            own = tree.known[node.id]
            vain = sum(1 for child in tree.rewrites(node.id) if tree.known[child.id] <= own)
            tired = own * self.fatigue**vain * self.virtual_loss ** view.load.get(node.id, 0)
            winners = tree.losses.get(node.id, ())
            if node.role == "tune" and node.parents and own <= tree.known[node.parents[0]]:
                winners = (*winners, node.parents[0])
            worth[node.id] = min([tired, *(worth[w] for w in winners if w in worth)])
        return sorted(tree.frontier(), key=lambda n: -worth[n.id])
