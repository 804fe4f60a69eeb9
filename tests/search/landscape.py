"""A synthetic task and author: what a policy is tried on without a compiler.

A candidate is a set of independent design choices (bits, some of which help only together) and a
block size. Its F is a product of factors; a draft is a random design, an improvement flips one
choice and often breaks something.
"""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, replace

from harness.types import Spent, from_json, to_json
from kevolve_mcp.search import Ask, Node, SelectionPolicy, Tree, ask_random
from kevolve_mcp.search.testing import as_asks

BITS = 10
BLOCKS = (16, 32, 64, 128)
FACTORS = (1.5, 1.4, 1.3, 1.25, 1.2, 1.15, 0.7, 0.6, 1.1, 1.1)


@dataclass(frozen=True)
class Design:
    bits: tuple[int, ...]
    block: int
    broken: bool = False

    @property
    def speed(self) -> float:
        value = 0.4
        for bit, factor in zip(self.bits, FACTORS, strict=True):
            value *= factor if bit else 1.0
        if self.bits[6] and self.bits[7]:  # two steps that each cost and together pay
            value *= 4.0
        favourite = BLOCKS[sum(self.bits[:4]) % len(BLOCKS)]
        return value * (1.0 if self.block == favourite else 0.8)


def propose(rng: random.Random, ask: Ask, designs: dict[str, Design]) -> Design:
    parents = [designs[p] for p in ask.parents]
    if not parents:
        bits = tuple(int(rng.random() < 0.25) for _ in range(BITS))
        return Design(bits, rng.choice(BLOCKS), rng.random() < 0.5)
    if ask.role == "repair":
        return replace(parents[0], broken=rng.random() < 0.4)
    if ask.role == "tune":
        return replace(parents[0], block=rng.choice([b for b in BLOCKS if b != parents[0].block]))
    if ask.role == "crossover":
        mixed = tuple(
            rng.choice(pair) for pair in zip(parents[0].bits, parents[1].bits, strict=True)
        )
        return replace(parents[0], bits=mixed, broken=rng.random() < 0.25)
    flip = rng.randrange(BITS)
    bits = tuple(b ^ (i == flip) for i, b in enumerate(parents[0].bits))
    return replace(parents[0], bits=bits, broken=rng.random() < 0.25)


def tell(rng: random.Random, ask: Ask, tree: Tree, designs: dict[str, Design]) -> Node:
    """Apply O and evaluate: the node that answers the ask. Measured with half a percent of
    noise."""
    design = propose(rng, ask, designs)
    seq = len(tree.nodes) + 1
    speed = 0.0 if design.broken else design.speed * rng.uniform(0.995, 1.005)
    designs[f"n{seq}"] = design
    structure = "".join(map(str, design.bits))
    return Node(
        id=f"n{seq}",
        seq=seq,
        parents=ask.parents,
        candidate=f"{structure}/{design.block}/{design.broken}",
        evaluation=f"e{seq}",
        status="incorrect" if design.broken else "correct",
        fitness=speed,
        eligible=not design.broken,
        ask=ask.seq,
        role=ask.role,
        params={"BLOCK": design.block},
        structure=structure,
        interval=(speed * 0.99, speed * 1.01) if speed else None,
        tunables={"BLOCK": list(BLOCKS)},
    )


@dataclass(frozen=True)
class Moment:
    """The state in which a selection was made, and the selection."""

    tree: Tree
    open_asks: tuple[Ask, ...]
    spent: Spent
    selected: tuple[Ask, ...]


def search(
    policy: SelectionPolicy, seed: int, evaluations: int, workers: int = 1
) -> tuple[Tree, list[Moment]]:
    """A whole search with `workers` authors who answer in random order."""
    tree, waiting, designs, moments = Tree(), (), {}, []  # type: ignore[var-annotated]
    while len(tree.nodes) < evaluations:
        seq, spent = len(tree.asks) + 1, Spent(evaluations=len(tree.nodes))
        if workers > len(waiting):
            chosen = as_asks(
                policy.select(tree, waiting, ask_random(seed, seq), spent, workers - len(waiting)),
                seq,
            )
            moments.append(Moment(tree, waiting, spent, chosen))
            tree, waiting = Tree(tree.nodes, tree.asks + chosen), waiting + chosen
        author = random.Random(f"author:{seed}:{len(tree.nodes)}")
        ask = author.choice(waiting)
        waiting = tuple(a for a in waiting if a is not ask)
        tree = Tree((*tree.nodes, tell(author, ask, tree, designs)), tree.asks)
    return tree, moments


def stored(tree: Tree) -> Tree:
    """The tree as it comes back from a store: through JSON text."""
    nodes = tuple(from_json(Node, json.loads(json.dumps(to_json(n)))) for n in tree.nodes)
    return Tree(nodes, tuple(from_json(Ask, json.loads(json.dumps(to_json(a)))) for a in tree.asks))
