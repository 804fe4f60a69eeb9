"""For authors of selection policies: a conformance suite to inherit, and random trees to try a
policy on.

    from kevolve_mcp.search.testing import PolicyConformance

    class TestMine(PolicyConformance):
        def policy(self):
            return MyPolicy()

The suite needs no test framework beyond one that collects classes named Test and methods named
test_*.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from harness.types import Spent, Status

from .node import Node, Role
from .policies import SelectionPolicy, ask_random
from .provenance import USER_FILE
from .tree import Ask, Expansion, MemoryOperator, Tree

_STATUSES: tuple[Status, ...] = (
    "correct",
    "correct",
    "correct",
    "incorrect",
    "build_failed",
    "crashed",
    "timed_out",
    "needs_review",
    "reward_hack",
)
_MEMORY: tuple[MemoryOperator, ...] = ("none", "parent", "siblings", "both")
_CHOICES = {"UNROLL": [1, 2, 4], "FAST": [0, 1]}
_FOREIGN: tuple[dict[str, Any], ...] = (
    {},
    {"island": 99, "generation": "later"},
    {"island": 1, "generation": 2},
    {"draft": "x", "arm": [1, {"deep": None}]},
)


def random_tree(rng: random.Random, size: int) -> tuple[Tree, tuple[Ask, ...]]:
    """Return a tree of `size` nodes and its open asks: with every status, crossovers, starts, nodes
    without an ask, abandoned asks, asks answered late, and foreign annotations."""
    nodes: list[Node] = []
    asks: list[Ask] = []
    waiting: list[Ask] = []
    while len(nodes) < size:
        if rng.random() < 0.8:
            waiting.append(_random_ask(rng, nodes, len(asks) + 1))
            asks.append(waiting[-1])
        elif waiting and rng.random() < 0.2:
            waiting.pop(rng.randrange(len(waiting)))  # abandoned
        if rng.random() < 0.7:
            ask = (
                waiting.pop(rng.randrange(len(waiting))) if waiting and rng.random() < 0.9 else None
            )
            nodes.append(_random_node(rng, nodes, len(nodes) + 1, ask))
    return Tree(tuple(nodes), tuple(asks)), tuple(waiting)


def _random_ask(rng: random.Random, nodes: Sequence[Node], seq: int) -> Ask:
    correct = [n.id for n in nodes if not n.failed]
    failed = [n.id for n in nodes if n.failed]
    roles: list[Role] = ["draft", "draft", "start"]
    roles += ["improve", "improve", "improve", "tune"] if correct else []
    roles += ["crossover"] if len(correct) > 1 else []
    roles += ["repair"] if failed else []
    role = rng.choice(roles)
    parents: tuple[str, ...] = ()
    if role == "crossover":
        parents = tuple(rng.sample(correct, 2))
    elif role not in ("draft", "start"):
        parents = (rng.choice(failed if role == "repair" else correct),)
    return Ask(
        seq, parents, rng.choice(_MEMORY) if parents else "none", role, dict(rng.choice(_FOREIGN))
    )


def _random_node(rng: random.Random, nodes: Sequence[Node], seq: int, ask: Ask | None) -> Node:
    if ask is not None:
        parents, role = ask.parents, ask.role
    else:
        parents = (rng.choice(nodes).id,) if nodes and rng.random() < 0.5 else ()
        role = "improve" if parents else "draft"
    status = rng.choice(_STATUSES)
    score = round(rng.uniform(0.2, 3.0), 3) if status == "correct" else 0.0
    params = (
        {name: rng.choice(choices) for name, choices in _CHOICES.items()}
        if rng.random() < 0.4
        else {}
    )
    width = rng.choice((1.0, 1.01, 1.2))
    return Node(
        id=f"n{seq}",
        seq=seq,
        parents=parents,
        candidate=f"candidate {rng.randrange(4 * seq)}",
        evaluation=f"e{seq}",
        status=status,
        fitness=None if status == "correct" and rng.random() < 0.05 else score,
        eligible=status == "correct" and rng.random() < 0.9,
        ask=ask.seq if ask is not None else None,
        role=role,
        origin=USER_FILE if role == "start" else None,
        params=params,
        structure=rng.choice(("", "s1", "s2", "s3")),
        interval=(score / width, score * width) if score and rng.random() < 0.8 else None,
        tunables=dict(_CHOICES) if params and rng.random() < 0.7 else {},
    )


def unmet(
    tree: Tree, open_asks: Sequence[Ask], chosen: Sequence[Expansion], n: int
) -> tuple[str, ...]:
    """Return how an answer breaks the contract of `SelectionPolicy.select`, one sentence each."""
    breaches = []
    if len(chosen) > n:
        breaches.append(f"{len(chosen)} expansions where at most {n} were asked for")
    if not chosen and not open_asks:
        breaches.append("no expansion although no ask is open: the search would stop")
    for e in chosen:
        parents = [tree.by_id.get(p) for p in e.parents]
        failed = [p.id for p in parents if p is not None and p.failed]
        if None in parents:
            breaches.append(f"unknown parents: {e}")
        if len(set(e.parents)) < len(e.parents):
            breaches.append(f"the same parent twice: {e}")
        if e.role == "start":
            breaches.append(f"only the session gives starts: {e}")
        expected = {
            "draft": (0,),
            "crossover": (2,),
            "improve": (1,),
            "tune": (1,),
            "repair": (1,),
        }.get(e.role, (0, 1, 2))
        if len(e.parents) not in expected:
            breaches.append(f"a {e.role} with {len(e.parents)} parents: {e}")
        if e.role == "draft" and e.memory != "none":
            breaches.append(f"a draft is independent and has no memory: {e}")
        if bool(failed) != (e.role == "repair") and None not in parents:
            breaches.append(f"only failed nodes are repaired, and they are only repaired: {e}")
        if json.loads(json.dumps(e.annotations)) != e.annotations:
            breaches.append(f"annotations must survive JSON unchanged: {e}")
    return tuple(breaches)


def as_asks(chosen: Sequence[Expansion], seq: int) -> tuple[Ask, ...]:
    """Return the asks that a session makes from a policy's answer, the first with this seq."""
    return tuple(
        Ask(seq + i, e.parents, e.memory, e.role, dict(e.annotations), e.why)
        for i, e in enumerate(chosen)
    )


class PolicyConformance:
    """The conformance tests: inherit as class Test… and provide `policy`. Each test checks one
    clause of SelectionPolicy's contract."""

    seeds = range(60)

    def policy(self) -> SelectionPolicy:
        """A fresh instance of the policy under test."""
        raise AssertionError("provide the policy under test: override policy()")

    def situations(self) -> Iterator[tuple[Tree, tuple[Ask, ...], int, int]]:
        """Trees, open asks, n and seeds, from the empty tree on."""
        for seed in self.seeds:
            rng = random.Random(seed)
            tree, open_asks = random_tree(rng, rng.choice((0, 1, 2, 5, 20, 60)))
            yield tree, open_asks, rng.choice((1, 1, 2, 3, 8)), seed

    def test_has_a_name(self) -> None:
        assert isinstance(self.policy().name, str)
        assert self.policy().name

    def test_answers_fit_the_tree(self) -> None:
        for tree, open_asks, n, seed in self.situations():
            chosen = self.policy().select(tree, open_asks, ask_random(seed, 1), Spent(), n)
            assert not unmet(tree, open_asks, chosen, n), unmet(tree, open_asks, chosen, n)

    def test_is_deterministic_and_keeps_no_state(self) -> None:
        kept = self.policy()
        for tree, open_asks, n, seed in self.situations():
            first = kept.select(tree, open_asks, ask_random(seed, 1), Spent(), n)
            assert kept.select(tree, open_asks, ask_random(seed, 1), Spent(), n) == first
            rebuilt = Tree(
                tuple(replace(x) for x in tree.nodes), tuple(replace(a) for a in tree.asks)
            )
            assert (
                self.policy().select(rebuilt, tuple(open_asks), ask_random(seed, 1), Spent(), n)
                == first
            )

    def test_leaves_its_arguments_alone(self) -> None:
        for tree, open_asks, n, seed in self.situations():
            before = repr((tree.nodes, tree.asks, open_asks))
            self.policy().select(tree, open_asks, ask_random(seed, 1), Spent(), n)
            assert repr((tree.nodes, tree.asks, open_asks)) == before

    def test_repeats_no_open_ask(self) -> None:
        for tree, _, n, seed in self.situations():
            open_asks: tuple[Ask, ...] = ()
            for _round in range(4):
                seq = 1 + len(tree.asks)
                chosen = self.policy().select(tree, open_asks, ask_random(seed, seq), Spent(), n)
                moves = [(e.parents, e.memory, e.role) for e in chosen if e.role != "draft"]
                taken = {(a.parents, a.memory, a.role) for a in open_asks}
                assert len(set(moves)) == len(moves), "the same expansion twice in one answer"
                assert not taken.intersection(moves), "an open ask was repeated"
                new = as_asks(chosen, seq)
                open_asks += new
                tree = Tree(tree.nodes, tree.asks + new)

    def test_ignores_abandoned_asks(self) -> None:
        """With every ask of an empty tree abandoned, the search begins again."""
        asks = as_asks(self.policy().select(Tree(), (), ask_random(0, 1), Spent(), 3), 1)
        assert self.policy().select(Tree((), asks), (), ask_random(0, len(asks) + 1), Spent(), 1)

    def test_survives_nothing_but_failures(self) -> None:
        """An author who never succeeds: the policy goes on asking, and never builds upon a
        failure."""
        tree = Tree()
        for seq in range(1, 40):
            chosen = self.policy().select(tree, (), ask_random(0, seq), Spent(evaluations=seq), 1)
            assert not unmet(tree, (), chosen, 1), unmet(tree, (), chosen, 1)
            (ask,) = as_asks(chosen, seq)
            node = Node(
                f"n{seq}",
                seq,
                ask.parents,
                f"c{seq}",
                f"e{seq}",
                "build_failed",
                0.0,
                ask=seq,
                role=ask.role,
            )
            tree = Tree((*tree.nodes, node), (*tree.asks, ask))
