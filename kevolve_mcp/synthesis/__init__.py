"""Making the next candidate: what its author sees (context), where a search starts (starts,
skills), files to fill in (templates), parameters to try (tuning), and the authors themselves.
Nothing here evaluates, stores or talks to a network."""

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
from .starts import SimilarKernel, Start, Starts, find_starts
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
    "SimilarKernel",
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
