"""The kernels that a run's home holds: of an evaluation, of a node, and the one it ended with."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType

from kevolve_mcp.errors import NotFound
from kevolve_mcp.search.node import Node
from kevolve_mcp.search.tree import Tree
from kevolve_mcp.store import Store


class Kernels:
    """Empty where nothing was opened. Use as a context manager."""

    def __init__(self, run: Path) -> None:
        home = run / "home"
        self._store = Store.open(home) if (home / "kevolve.db").exists() else None

    def __enter__(self) -> Kernels:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._store is not None:
            self._store.close()

    def tree(self, session: str) -> Tree:
        """Empty where the session is not there."""
        try:
            return self._store.nodes.tree(session) if self._store else Tree()
        except NotFound:
            return Tree()

    def of_node(self, node: Node) -> str:
        return self._text(node.candidate)

    def of_evaluation(self, session: str, identifier: str) -> str:
        """session: the one that the agent was told of it in, "" for none. Returns "" where it, or
        its candidate's text, is not kept."""
        if self._store is None:
            return ""
        try:
            stored = self._store.evaluations.get(session or None, identifier)
            return self._text(stored.evaluation.candidate)
        except NotFound:
            return ""

    def last(self) -> str | None:
        """The text of the node that the newest session ended with, or of its best one; None without
        any."""
        sessions = self._store.sessions.list(limit=1) if self._store else ()
        if not sessions:
            return None
        session = sessions[0].session
        tree = self.tree(session.id)
        ended = session.outcome
        node = (tree.by_id.get(ended.node) if ended else None) or tree.best()
        return self.of_node(node) if node is not None else None

    def _text(self, candidate: str) -> str:
        assert self._store is not None
        try:
            return self._store.candidates.get(candidate).source
        except NotFound:
            return ""
