"""The fake twin: a policy so simple that a test of an upper floor can say in advance what it will
answer."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from harness.types import Spent

from ..tree import Ask, Expansion, MemoryOperator, Tree
from .base import SelectionPolicy


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
