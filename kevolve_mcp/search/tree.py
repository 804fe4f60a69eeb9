"""The search tree: insert-only nodes and asks, and queries on them.

All search state is derived from nodes and asks. Nothing changes after it was inserted, so a tree
loaded from the store after a crash is the same tree.
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
    """One request for a next candidate. lease_until: when the ask may be given to another author
    (seconds, the clock of `created`). taken: when its current author took it, None while it is
    free. why: one sentence for the reader. start: the kernel of an ask of role "start"; lent: a
    kernel for a similar task that it shows."""

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
        """Return the expansion it was made from."""
        return Expansion(
            self.parents, self.memory, self.role, self.annotations, self.why, self.start, self.lent
        )


@dataclass(frozen=True)
class Expansion:
    """A policy's answer: expand these parents, with this memory operator, in this role.
    annotations: only read by the policy. why, start, lent: see Ask."""

    parents: tuple[str, ...]
    memory: MemoryOperator
    role: Role
    annotations: dict[str, Any] = field(default_factory=dict)
    why: str = ""
    start: StartKernel | None = None
    lent: LentKernel | None = None

    def asked(self, seq: int) -> Ask:
        """Return the ask that it becomes, which is not taken yet."""
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
    """A tree. nodes, asks: in the order of their seq."""

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

    def rewrites(self, node_id: str) -> tuple[Node, ...]:
        """Direct children with another text, not only other parameters."""
        return tuple(child for child in self.children(node_id) if child.role != "tune")

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
        """Return the standing of each node by id: see `ranking.standings`."""
        return standings(self.nodes)

    @cached_property
    def losses(self) -> dict[str, tuple[str, ...]]:
        """Return the nodes to which each node lost head-to-head: see `ranking.losses`."""
        return losses(self.nodes)

    def in_order(self, nodes: Iterable[Node]) -> tuple[Node, ...]:
        """Return nodes by standing, best first; of equals the earlier one first."""
        return tuple(sorted(nodes, key=lambda n: (-self.known[n.id], n.seq)))

    def ranked(self, nodes: Iterable[Node]) -> tuple[Node, ...]:
        """Return nodes `in_order`, those that may win before all others."""
        some = tuple(nodes)
        return (
            *self.in_order(n for n in some if able(n)),
            *self.in_order(n for n in some if not able(n)),
        )

    def frontier(self) -> tuple[Node, ...]:
        """Return the nodes worth building on: every correct one, `in_order`."""
        return self.in_order(n for n in self.nodes if not n.failed)

    def untried(self, node_id: str) -> int | None:
        """Return how many settings of the node's TUNABLES no node of its structure has tried.

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
        """Return the annotation `name` of the node's ask, else of the node itself, else None."""
        ask = self.asks_by_seq.get(node.ask) if node.ask is not None else None
        if ask is not None and name in ask.annotations:
            return ask.annotations[name]
        return node.annotations.get(name)

    def best(self) -> Node | None:
        """Return the best node that may win, None without one."""
        return first(self.nodes, self.known)

    def answered(self) -> frozenset[int]:
        """Return the seqs of asks that have a node."""
        return frozenset(n.ask for n in self.nodes if n.ask is not None)
