"""Short ways to write a tree."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from kevolve_mcp.search import Ask, Node, Tree
from kevolve_mcp.search.testing import random_tree


def node(number: int, fitness: float | None = 1.0, *parents: int, **more: Any) -> Node:
    """Node n<number>; fitness 0 means incorrect."""
    correct = fitness is None or fitness > 0
    facts: dict[str, Any] = {"status": "correct" if correct else "incorrect", "eligible": correct}
    facts |= {
        "role": "improve" if parents else "draft",
        "candidate": f"c{number}",
        "evaluation": f"e{number}",
        **more,
    }
    return Node(
        id=f"n{number}",
        seq=number,
        parents=tuple(f"n{p}" for p in parents),
        fitness=fitness,
        **facts,
    )


def ask(
    seq: int, role: Any = "improve", *parents: int, memory: Any = "parent", **annotations: Any
) -> Ask:
    return Ask(
        seq, tuple(f"n{p}" for p in parents), memory if parents else "none", role, annotations
    )


def tree(*nodes: Node, asks: tuple[Ask, ...] = ()) -> Tree:
    return Tree(nodes, asks)


# A tree and its open asks, shrinking to small ones.
situations = st.builds(random_tree, st.randoms(use_true_random=False), st.integers(0, 25))
