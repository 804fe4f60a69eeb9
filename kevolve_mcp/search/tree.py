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

from harness.types import Status, Target, Verdict

from .provenance import NOBODY, PARAMETER_SEARCH, AuthorId, LentKernel, Origin, StartKernel

ROOT = "n0"  # the task itself: its baseline, fitness 1; it exists in every tree and is never stored

MARGIN = Target("cpu").margin  # of a node whose device is not known: the widest one

MemoryOperator = Literal["none", "parent", "siblings", "both"]
Role = Literal["start", "draft", "improve", "repair", "tune", "crossover"]


@dataclass(frozen=True)
class Meeting:
    """How a node did in the same rounds as `other`, which was the best when it was told.

    ratio: time of `other` / time of the node, above 1 where the node is faster; interval: of 95 %;
    both None where they could not be timed together, which `note` explains. verdict: of the node;
    None where the figures over the baseline have to decide.
    """

    other: str
    verdict: Verdict | None = None
    ratio: float | None = None
    interval: tuple[float, float] | None = None
    note: str = ""

    @property
    def won(self) -> bool:
        """Whether the node is certainly the faster one."""
        return self.verdict == "faster"


@dataclass(frozen=True)
class Node:
    """id: "n17" with seq 17. fitness: None where nothing was timed, 0.0 for anything not proved
    correct.

    parents: ids of earlier nodes, () for a root, never ROOT. interval: the 95 % interval of F where
    known. author: who handed it in. origin: where a start came from, None for a node that the
    search made. predicted_speedup: the author's forecast of F as a factor on the
    parent's (on 1 without a parent). tunables: the choices that the candidate's TUNABLES name, {}
    where none are known. seconds/device_seconds: what the evaluation cost. approved_by: who let it
    pass; one that needs a review then counts as correct. met: the comparison with the best node of
    the moment, None where none was needed. margin: of the device that timed it; ratios nearer to 1
    are no progress.
    """

    id: str
    seq: int
    parents: tuple[str, ...]
    candidate: str
    evaluation: str
    status: Status
    fitness: float | None
    eligible: bool = False
    signals: tuple[str, ...] = ()
    ask: int | None = None
    role: Role = "improve"
    author: AuthorId = NOBODY
    origin: Origin | None = None
    hypothesis: str = ""
    predicted_speedup: float | None = None
    rationale: str = ""
    annotations: dict[str, Any] = field(default_factory=dict)
    params: dict[str, Any] = field(default_factory=dict)
    # digest of the source with PARAMS blanked: nodes of one structure differ only in parameters
    structure: str = ""
    created: float = 0.0
    interval: tuple[float, float] | None = None
    tunables: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.0
    device_seconds: float = 0.0
    approved_by: str = ""
    met: Meeting | None = None
    margin: float = MARGIN

    @property
    def failed(self) -> bool:
        """Whether the candidate was not proved correct. A correct node may still be slow."""
        return self.status != "correct"

    @property
    def automatic(self) -> bool:
        """Whether parameter search made it, and no author."""
        return self.author == PARAMETER_SEARCH

    @property
    def family(self) -> str:
        """Equal for nodes that differ only in parameters; the candidate itself where the structure
        is not known."""
        return self.structure or self.candidate

    @property
    def score(self) -> float:
        """Fitness for ordering: unproved or untimed counts as 0."""
        return self.fitness or 0.0

    @property
    def assured(self) -> float:
        """The lower end of F's interval, F itself where none is known: nodes are chosen by what is
        known of them, not by a lucky median."""
        return min(self.score, self.interval[0]) if self.interval is not None else self.score

    @property
    def span(self) -> tuple[float, float]:
        """F's interval, F itself at both ends where none is known."""
        return self.interval or (self.score, self.score)


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
        found: dict[str, list[Node]] = {}
        for node in self.nodes:
            found.setdefault(node.family, []).append(node)
        return {k: tuple(v) for k, v in found.items()}

    @cached_property
    def _children(self) -> dict[str, tuple[Node, ...]]:
        found: dict[str, list[Node]] = {}
        for node in self.nodes:
            for parent in node.parents or (ROOT,):
                found.setdefault(parent, []).append(node)
        return {k: tuple(v) for k, v in found.items()}

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

    def frontier(self) -> tuple[Node, ...]:
        """The nodes worth building on: every correct one, as `in_order`."""
        return in_order(n for n in self.nodes if not n.failed)

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
        """The first of the eligible nodes `in_order`, None without one."""
        return champion(n for n in self.nodes if n.eligible and n.score > 0)

    def answered(self) -> frozenset[int]:
        """The seqs of asks that have a node."""
        return frozenset(n.ask for n in self.nodes if n.ask is not None)


def champion(nodes: Iterable[Node]) -> Node | None:
    """The best by what is known; None of none.

    In the order of insertion each node takes the place of the best so far if its interval lies
    above it, or if it won head-to-head; one that met it, or an earlier one of these nodes, and did
    not win is left where it is. Where no meeting decides, the F that is assured does, then F, then
    the earlier one.
    """
    best: Node | None = None
    seen: set[str] = set()
    for node in sorted(nodes, key=lambda n: n.seq):
        if best is None or _takes_over(node, best, seen):
            best = node
        seen.add(node.id)
    return best


def apart(first: tuple[float, float], second: tuple[float, float]) -> bool:
    """Whether two intervals have nothing in common."""
    return first[0] > second[1] or second[0] > first[1]


def _takes_over(node: Node, best: Node, seen: set[str]) -> bool:
    higher = (node.assured, node.score) > (best.assured, best.score)
    met = node.met
    if met is None or met.verdict is None or met.other not in seen or apart(node.span, best.span):
        return higher
    return met.won and (met.other == best.id or higher)


def in_order(nodes: Iterable[Node]) -> tuple[Node, ...]:
    """The champion first, the others by the F that is assured, then by F, then the earlier one."""
    some = tuple(nodes)
    first = champion(some)
    return tuple(sorted(some, key=lambda n: (n is not first, -n.assured, -n.score, n.seq)))
