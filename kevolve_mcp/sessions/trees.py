"""Trees as the search needs them. What follows from a node's evaluation and text is derived once,
since neither ever changes."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from harness.types import CandidateError, Target
from kevolve_mcp.search import Node, Tree, interval

if TYPE_CHECKING:
    from kevolve_mcp.store import Measured, Store


@dataclass(frozen=True)
class _Figures:
    """What follows from an evaluation."""

    interval: tuple[float, float] | None
    seconds: float
    device_seconds: float
    margin: float


class Trees:
    """Loads trees with intervals, costs and tunables filled in; thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._figures: dict[tuple[str, str], _Figures] = {}
        self._tunables: dict[str, dict[str, Any]] = {}

    def load(self, store: Store, session: str, *, to_show: bool = False) -> Tree:
        """Return a consistent snapshot of all nodes and asks. to_show: without tunables, which are
        in the candidates' texts and only matter to the search. Raises NotFound."""
        tree = store.nodes.tree(session)
        figures = self._of_evaluations(store, session, [n.evaluation for n in tree.nodes])
        nodes = [
            replace(
                node,
                interval=derived.interval if node.fitness else None,
                seconds=derived.seconds,
                device_seconds=derived.device_seconds,
                margin=derived.margin,
                tunables={} if to_show else dict(self._of_candidate(store, node.candidate)),
            )
            for node in tree.nodes
            for derived in (figures[node.evaluation],)
        ]
        return Tree(tuple(nodes), tree.asks)

    def _of_evaluations(
        self, store: Store, session: str, evaluations: Sequence[str]
    ) -> dict[str, _Figures]:
        """The figures by id in the session."""
        with self._lock:
            unknown = [e for e in evaluations if (session, e) not in self._figures]
        known = store.evaluations.measured(session, unknown) if unknown else {}
        figures = {(session, e): _derived(measured) for e, measured in known.items()}
        with self._lock:
            self._figures |= figures
            return {e: self._figures[session, e] for e in evaluations}

    def _of_candidate(self, store: Store, candidate: str) -> dict[str, Any]:
        with self._lock:
            tunables = self._tunables.get(candidate)
        if tunables is None:
            tunables = _tunables(store, candidate)
            with self._lock:
                self._tunables[candidate] = tunables
        return tunables


def _derived(measured: Measured) -> _Figures:
    return _Figures(
        interval(measured.cases),
        measured.seconds,
        measured.device_seconds,
        Target.parse(measured.target).margin,
    )


def _tunables(store: Store, candidate: str) -> dict[str, Any]:
    try:
        return dict(store.candidates.get(candidate).tunables())
    except CandidateError:  # an invalid text may not parse; it has no choices then
        return {}


def ids(nodes: Sequence[Node]) -> str:
    """Return the joined ids of nodes."""
    return ", ".join(n.id for n in nodes)
