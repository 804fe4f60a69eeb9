"""What callers see, whatever the surface: the server's structured content, what the driver reads,
and the JSON of the command line and of packages. Frozen values that `harness.types.to_json` turns
into JSON, each made from the domain's value in this package alone. A field that changes here
changes the public interface. A module is loaded when one of its names is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kevolve_mcp.lazy import loader

if TYPE_CHECKING:
    from .evaluations import Evaluation, Signal, evaluation, processes
    from .nodes import Node, best, lineage, node
    from .results import Compared, Depth, Duel, Evaluated, Finished, Opened, Skill, Trial, Tuned
    from .schema import outline
    from .sessions import (
        Exported,
        Left,
        Session,
        Similar,
        TaskCase,
        exported,
        left,
        session,
        similar,
    )

__all__ = [
    "Compared",
    "Depth",
    "Duel",
    "Evaluated",
    "Evaluation",
    "Exported",
    "Finished",
    "Left",
    "Node",
    "Opened",
    "Session",
    "Signal",
    "Similar",
    "Skill",
    "TaskCase",
    "Trial",
    "Tuned",
    "best",
    "evaluation",
    "exported",
    "left",
    "lineage",
    "node",
    "outline",
    "processes",
    "session",
    "similar",
]

__getattr__ = loader(
    __name__,
    {
        "evaluations": ("Evaluation", "Signal", "evaluation", "processes"),
        "nodes": ("Node", "best", "lineage", "node"),
        "results": (
            "Compared",
            "Depth",
            "Duel",
            "Evaluated",
            "Finished",
            "Opened",
            "Skill",
            "Trial",
            "Tuned",
        ),
        "schema": ("outline",),
        "sessions": (
            "Exported",
            "Left",
            "Session",
            "Similar",
            "TaskCase",
            "exported",
            "left",
            "session",
            "similar",
        ),
    },
)
