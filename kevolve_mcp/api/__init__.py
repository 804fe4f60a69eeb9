"""What callers see, whatever the surface: the server's structured content, what the driver reads,
and the JSON of the command line and of packages. Frozen values that `harness.types.to_json` turns
into JSON; only this package makes them from the domain's values. A field that changes here changes
the public interface. A module is loaded when one of its names is used: looking up a page needs
nothing of the search.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kevolve_mcp.lazy import loader

if TYPE_CHECKING:
    from .evaluations import Evaluation, Signal, evaluation, facts, processes
    from .jobs import Error, Job, JobKind, answered, job
    from .knowledge import Hit, Hits, Page, hits, page
    from .machines import MachineSummary, machine
    from .nodes import Node, best, lineage, node
    from .results import Compared, Depth, Duel, Evaluated, Finished, Opened, Trial, Tuned
    from .schema import outline
    from .sessions import (
        Ask,
        AskBatch,
        Exported,
        Left,
        Session,
        Similar,
        TaskCase,
        ask,
        exported,
        left,
        session,
        similar,
    )
    from .skills import Skill, SkillCounts, SkillDetail, skill
    from .views import View, view

__all__ = [
    "Ask",
    "AskBatch",
    "Compared",
    "Depth",
    "Duel",
    "Error",
    "Evaluated",
    "Evaluation",
    "Exported",
    "Finished",
    "Hit",
    "Hits",
    "Job",
    "JobKind",
    "Left",
    "MachineSummary",
    "Node",
    "Opened",
    "Page",
    "Session",
    "Signal",
    "Similar",
    "Skill",
    "SkillCounts",
    "SkillDetail",
    "TaskCase",
    "Trial",
    "Tuned",
    "View",
    "answered",
    "ask",
    "best",
    "evaluation",
    "exported",
    "facts",
    "hits",
    "job",
    "left",
    "lineage",
    "machine",
    "node",
    "outline",
    "page",
    "processes",
    "session",
    "similar",
    "skill",
    "view",
]

__getattr__ = loader(
    __name__,
    {
        "evaluations": ("Evaluation", "Signal", "evaluation", "facts", "processes"),
        "jobs": ("Error", "Job", "JobKind", "answered", "job"),
        "knowledge": ("Hit", "Hits", "Page", "hits", "page"),
        "machines": ("MachineSummary", "machine"),
        "nodes": ("Node", "best", "lineage", "node"),
        "results": (
            "Compared",
            "Depth",
            "Duel",
            "Evaluated",
            "Finished",
            "Opened",
            "Trial",
            "Tuned",
        ),
        "schema": ("outline",),
        "sessions": (
            "Ask",
            "AskBatch",
            "ask",
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
        "skills": ("Skill", "SkillCounts", "SkillDetail", "skill"),
        "views": ("View", "view"),
    },
)
