"""The selection policy, which chooses the nodes to expand next; and a fake one, simple enough for
tests of upper floors to predict its answers."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from harness.types import Spent

from ..tree import Ask, Expansion, MemoryOperator, Tree


class SelectionPolicy(ABC):
    """π_sel, one pure function. A policy is not notified of results: it reads them from the tree.

    **Purity.** `select` reads its arguments and nothing else: no clock, file, environment or
    global, no state in `self` beyond the options given to the constructor. Equal arguments (the
    random source in equal state) give equal answers, so iterate over sets and hashes only after
    sorting. One instance may serve several sessions and threads at once.

    **What it may remember.** Island, generation, arm and the like go into `Expansion.annotations`,
    as JSON scalars, lists or objects with string keys. They are stored with the ask and come back
    in `tree.asks`, also while the ask has no node yet. Annotations of another policy, or of the
    same one with other options, may occur and must be tolerated.

    **Open asks** are given to an author and not answered yet; they are part of `tree.asks`. Count
    them as if their nodes were on the way (virtual loss), so that authors who ask at once do not
    all do the same: an expansion with the parents, memory operator and role of an open ask is given
    only where nothing else is left. Drafts are independent samples and exempt. An ask in
    `tree.asks` that is neither open nor answered was abandoned: ignore it. A node may also have no
    ask (the agent submitted it by itself); treat it like any other.

    **The answer** has at most `n` expansions, and at least one unless asks are open (then [] means:
    wait for them). Parents are ids of nodes in the tree; a draft has none. The role "start" belongs
    to the session and is never answered, but start nodes are roots to expand like drafts. Failed
    nodes may be expanded in the role "repair" only.

    **Resume.** All state is derived from nodes and asks, so that a tree rebuilt from the store
    after a crash selects exactly what the uninterrupted search would have. The caller derives `rng`
    from the session's seed and the seq of the ask about to be made (`ask_random`).
    """

    name: ClassVar[str]

    @abstractmethod
    def select(
        self, tree: Tree, open_asks: Sequence[Ask], rng: random.Random, spent: Spent, n: int
    ) -> list[Expansion]:
        """Return up to `n` (>= 1) expansions. `spent` is what the session used so far, for policies
        that anneal."""

    def without_tuning(self) -> SelectionPolicy:
        """Return this policy for a session with parameter search, in which authors are not asked
        for other parameters."""
        return self


def ask_random(seed: int, seq: int) -> random.Random:
    """Return the random source for the ask with this seq: the same on every machine and after every
    restart."""
    return random.Random(f"{seed}:{seq}")


@dataclass(frozen=True)
class FakePolicy(SelectionPolicy):
    """Drafts until there is a correct node, then improves the latest correct one with memory
    "parent" (with "both" while the same is open, and drafts beyond that). Ignores the random
    source."""

    name: ClassVar[str] = "fake"

    def select(
        self, tree: Tree, open_asks: Sequence[Ask], rng: random.Random, spent: Spent, n: int
    ) -> list[Expansion]:
        correct = [node for node in tree.nodes if not node.failed]
        latest = correct[-1].id if correct else None
        taken = {a.memory for a in open_asks if a.role == "improve" and a.parents == (latest,)}
        operators: tuple[MemoryOperator, ...] = ("parent", "both")
        steps = [
            Expansion((latest,), m, "improve")
            for m in operators
            if latest is not None and m not in taken
        ]
        return (steps + [Expansion((), "none", "draft")] * n)[:n]
