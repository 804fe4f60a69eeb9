"""Trees as the search wants them: what follows from a node's evaluation and text, derived once,
since neither ever changes."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from harness.types import CandidateError, Target
from kevolve_mcp.search import Node, Tree, interval

if TYPE_CHECKING:
    from kevolve_mcp.store import Store


@dataclass(frozen=True)
class _Measured:
    interval: tuple[float, float] | None
    seconds: float
    device_seconds: float
    margin: float


class Trees:
    """Loads trees with intervals, costs and tunables filled in. Safe to use from several
    threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._measured: dict[str, _Measured] = {}
        self._tunables: dict[str, dict[str, Any]] = {}

    def load(self, store: Store, session: str) -> Tree:
        """All nodes and asks as of one moment. Raises NotFound."""
        tree = store.nodes.tree(session)
        return Tree(tuple(self._filled(store, n) for n in tree.nodes), tree.asks)

    def _filled(self, store: Store, node: Node) -> Node:
        with self._lock:
            measured, tunables = (
                self._measured.get(node.evaluation),
                self._tunables.get(node.candidate),
            )
        if measured is None:
            e = store.evaluations.get(node.evaluation).evaluation
            measured = _Measured(
                interval(e.cases), e.seconds, e.device_seconds, Target.parse(e.target).margin
            )
        if tunables is None:
            tunables = _tunables(store, node.candidate)
        with self._lock:
            self._measured[node.evaluation], self._tunables[node.candidate] = measured, tunables
        return replace(
            node,
            interval=measured.interval if node.fitness else None,
            seconds=measured.seconds,
            device_seconds=measured.device_seconds,
            margin=measured.margin,
            tunables=dict(tunables),
        )


def _tunables(store: Store, candidate: str) -> dict[str, Any]:
    try:
        return dict(store.candidates.get(candidate).tunables())
    except CandidateError:  # an invalid text may not parse; it has no choices then
        return {}


def ids(nodes: Sequence[Node]) -> str:
    """Join the names of nodes."""
    return ", ".join(n.id for n in nodes)
