"""The search tree: insert-only nodes and asks, and the questions one can put to them.

All search state is derived from nodes and asks; nothing here changes after it was inserted, so a
tree loaded from the store after a crash is the tree that was.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

from .node import Node, Role
from .provenance import NOBODY, AuthorId, LentKernel, StartKernel
from .ranking import able, first, losses, standings

ROOT = "n0"  # the task itself: its baseline, fitness 1; it exists in every tree and is never stored

MemoryOperator = Literal["none", "parent", "siblings", "both"]


@dataclass(frozen=True)
class Ask:
    """One request for a next candidate. `lease_until` (seconds, the clock of `created`): after it
    the ask may be given again. taken: when its present author took it, None while it is free.
    why: one sentence for who reads it. start: what an ask of role "start" wants; lent: a kernel of
    a similar task that it shows."""

    seq: int
    parents: tuple[str, ...]
    memory: MemoryOperator
    role: Role
    annotations: dict[str, Any] = field(default_factory=dict)
    why: str = ""
    start: StartKernel | None = None
    lent: LentKernel | None = None
    author: AuthorId = NOBODY
    created: float = 0.0
    lease_until: float = 0.0
    taken: float | None = None

    @property
    def id(self) -> str:
        return f"a{self.seq}"

    @property
    def expansion(self) -> Expansion:
        """What it was made of."""
        return Expansion(
            self.parents, self.memory, self.role, self.annotations, self.why, self.start, self.lent
        )


@dataclass(frozen=True)
class Expansion:
    """A policy's answer: expand these parents, under this memory operator, in this role.
    annotations: what only the policy reads. why, start, lent: see Ask."""

    parents: tuple[str, ...]
    memory: MemoryOperator
    role: Role
    annotations: dict[str, Any] = field(default_factory=dict)
    why: str = ""
    start: StartKernel | None = None
    lent: LentKernel | None = None

    def asked(self, seq: int) -> Ask:
        """The ask that it becomes, which nobody has yet."""
        return Ask(
            seq,
            self.parents,
            self.memory,
            self.role,
            self.annotations,
            self.why,
            self.start,
            self.lent,
        )


@dataclass(frozen=True)
class Tree:
    """nodes and asks in the order of their seq."""

    nodes: tuple[Node, ...] = ()
    asks: tuple[Ask, ...] = ()

    @cached_property
    def by_id(self) -> dict[str, Node]:
        return {n.id: n for n in self.nodes}

    @cached_property
    def asks_by_seq(self) -> dict[int, Ask]:
        return {a.seq: a for a in self.asks}

    @cached_property
    def families(self) -> dict[str, tuple[Node, ...]]:
        """Nodes by `Node.family`, in the order of insertion."""
        by_family: dict[str, list[Node]] = {}
        for node in self.nodes:
            by_family.setdefault(node.family, []).append(node)
        return {k: tuple(v) for k, v in by_family.items()}

    @cached_property
    def _children(self) -> dict[str, tuple[Node, ...]]:
        children: dict[str, list[Node]] = {}
        for node in self.nodes:
            for parent in node.parents or (ROOT,):
                children.setdefault(parent, []).append(node)
        return {k: tuple(v) for k, v in children.items()}

    def children(self, node_id: str) -> tuple[Node, ...]:
        """Direct children in the order of insertion; of ROOT: all nodes without a parent."""
        return self._children.get(node_id, ())

    def trajectory(self, node_id: str) -> tuple[Node, ...]:
        """The path root -> node along first parents, the node included, ROOT not."""
        path: list[Node] = []
        current = self.by_id.get(node_id)
        while current is not None:
            path.append(current)
            current = self.by_id.get(current.parents[0]) if current.parents else None
        return tuple(reversed(path))

    def depth(self, node_id: str) -> int:
        """Edges between ROOT and the node along first parents: 0 for ROOT, 1 for drafts and
        starts."""
        return len(self.trajectory(node_id))

    def ancestors(self, node_id: str) -> frozenset[str]:
        """All nodes this one was made from, through every parent; neither the node itself nor
        ROOT."""
        return self._closure(node_id, lambda i: self.by_id[i].parents if i in self.by_id else ())

    def descendants(self, node_id: str) -> frozenset[str]:
        """All nodes made from this one, directly or not."""
        return self._closure(node_id, lambda i: tuple(n.id for n in self.children(i)))

    def _closure(self, start: str, step: Callable[[str], tuple[str, ...]]) -> frozenset[str]:
        seen: set[str] = set()
        front = [start]
        while front:
            fresh = [i for i in step(front.pop()) if i in self.by_id and i not in seen]
            seen.update(fresh)
            front += fresh
        return frozenset(seen - {start})

    @cached_property
    def known(self) -> dict[str, float]:
        """What is known of each node, by id: see `ranking.standings`."""
        return standings(self.nodes)

    @cached_property
    def losses(self) -> dict[str, tuple[str, ...]]:
        """To whom each node lost head-to-head: see `ranking.losses`."""
        return losses(self.nodes)

    def in_order(self, nodes: Iterable[Node]) -> tuple[Node, ...]:
        """Best first, by what is known of them; of equals the earlier one."""
        return tuple(sorted(nodes, key=lambda n: (-self.known[n.id], n.seq)))

    def ranked(self, nodes: Iterable[Node]) -> tuple[Node, ...]:
        """`in_order`, those that may win before all others."""
        some = tuple(nodes)
        return (
            *self.in_order(n for n in some if able(n)),
            *self.in_order(n for n in some if not able(n)),
        )

    def frontier(self) -> tuple[Node, ...]:
        """The nodes worth building on: every correct one, `in_order`."""
        return self.in_order(n for n in self.nodes if not n.failed)

    def untried(self, node_id: str) -> int | None:
        """How many settings of the node's TUNABLES no node of its structure has tried.

        0 for a node without parameters; None where it has parameters but its choices are not known.
        """
        node = self.by_id[node_id]
        if not node.tunables:
            return None if node.params else 0
        tried = {
            tuple(repr(n.params.get(name)) for name in sorted(node.tunables))
            for n in self.families[node.family]
            if all(n.params.get(name) in choices for name, choices in node.tunables.items())
        }
        return max(0, math.prod(len(choices) for choices in node.tunables.values()) - len(tried))

    def annotation(self, node: Node, name: str) -> Any:
        """What was noted under `name` when the node was asked for, else what the node itself
        carries, else None."""
        ask = self.asks_by_seq.get(node.ask) if node.ask is not None else None
        if ask is not None and name in ask.annotations:
            return ask.annotations[name]
        return node.annotations.get(name)

    def best(self) -> Node | None:
        """The first of those that may win, None without one."""
        return first(self.nodes, self.known)

    def answered(self) -> frozenset[int]:
        """The seqs of asks that have a node."""
        return frozenset(n.ask for n in self.nodes if n.ask is not None)
