"""What looking at sessions comes to: apart from the other answers, which are those of jobs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from kevolve_mcp import api


@dataclass(frozen=True)
class TreeView:
    """A page for a person or a model, and the same as values."""

    kind: Literal["sessions", "tree", "node", "evaluation", "diff", "template"]
    heading: str
    """What is shown, in one line."""
    text: str
    next_cursor: int = 0
    """Where the rest begins; 0: there is none."""
    remaining: int = 0
    """Characters of the rest."""
    session: api.Session | None = None
    sessions: tuple[api.Session, ...] = ()
    nodes: tuple[api.Node, ...] = ()
    evaluation: api.Evaluation | None = None
