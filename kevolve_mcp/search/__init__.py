"""Search: (F, π_sel, O, τ) over an insert-only graph, as pure functions. From a tree, open asks,
a random source and what was spent it derives what to expand next, what the author sees of the tree,
how nodes compare and whether the search is over. Nothing here reads a clock, a file or a
database."""

from .comparison import (
    Change,
    NodeComparison,
    assured,
    compare,
    meeting,
    observed,
    progress,
    stalled_for,
    undominated,
    versus_parent,
)
from .fitness import Figures, eligible, figures, fitness, interval
from .memory import PATIENCE, History, decide, history
from .node import Meeting, Node, Role
from .parameters import Searched, affordable, next_to_tune, searched
from .policies import SelectionPolicy, ask_random, create_policy, policy_names
from .provenance import NOBODY, PARAMETER_SEARCH, AuthorId, LentKernel, Origin, StartKernel
from .ranking import apart
from .termination import ROOFLINE, STALL_AFTER, Reason, Termination, no_winner, room, terminate
from .tree import ROOT, Ask, Expansion, MemoryOperator, Tree
from .unmet_goals import dispatch, unmet_goals

__all__ = [
    "NOBODY",
    "PARAMETER_SEARCH",
    "PATIENCE",
    "ROOFLINE",
    "ROOT",
    "STALL_AFTER",
    "Ask",
    "AuthorId",
    "Change",
    "Expansion",
    "Figures",
    "History",
    "LentKernel",
    "Meeting",
    "MemoryOperator",
    "Node",
    "NodeComparison",
    "Origin",
    "Reason",
    "Role",
    "Searched",
    "SelectionPolicy",
    "StartKernel",
    "Termination",
    "Tree",
    "affordable",
    "apart",
    "ask_random",
    "assured",
    "compare",
    "create_policy",
    "decide",
    "dispatch",
    "eligible",
    "figures",
    "fitness",
    "history",
    "interval",
    "meeting",
    "next_to_tune",
    "no_winner",
    "observed",
    "policy_names",
    "progress",
    "room",
    "searched",
    "stalled_for",
    "terminate",
    "undominated",
    "unmet_goals",
    "versus_parent",
]
