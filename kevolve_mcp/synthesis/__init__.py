"""Making the next candidate: what its author sees (context), where a search starts (starts,
skills), files to fill in (templates), parameters to try (tuning), and the authors themselves.
Only authors use a network; nothing here evaluates or stores. A module is loaded when one of its
names is used, since a server that only lists its tools needs none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kevolve_mcp.lazy import loader

if TYPE_CHECKING:
    from .ask import (
        AskContext,
        CaseFacts,
        HistoryRow,
        ParentView,
        StartView,
        TaskFacts,
        structural_names,
        structure_digest,
    )
    from .context import Context, Material, Parent, ask_data, build_context
    from .layout import estimate_tokens
    from .sections import Excerpt
    from .skills import Instantiation, Instantiations, instantiate, skill_name
    from .starts import SimilarStart, Start, Starts, find_starts
    from .templates import template_candidate
    from .tuning import Choice, next_choice

__all__ = [
    "AskContext",
    "CaseFacts",
    "Choice",
    "Context",
    "Excerpt",
    "HistoryRow",
    "Instantiation",
    "Instantiations",
    "Material",
    "Parent",
    "ParentView",
    "SimilarStart",
    "Start",
    "StartView",
    "Starts",
    "TaskFacts",
    "ask_data",
    "build_context",
    "estimate_tokens",
    "find_starts",
    "instantiate",
    "next_choice",
    "skill_name",
    "structural_names",
    "structure_digest",
    "template_candidate",
]

__getattr__ = loader(
    __name__,
    {
        "ask": (
            "AskContext",
            "CaseFacts",
            "HistoryRow",
            "ParentView",
            "StartView",
            "TaskFacts",
            "structural_names",
            "structure_digest",
        ),
        "context": ("Context", "Material", "Parent", "ask_data", "build_context"),
        "layout": ("estimate_tokens",),
        "sections": ("Excerpt",),
        "skills": ("Instantiation", "Instantiations", "instantiate", "skill_name"),
        "starts": ("SimilarStart", "Start", "Starts", "find_starts"),
        "templates": ("template_candidate",),
        "tuning": ("Choice", "next_choice"),
    },
)
