"""Search: (F, π_sel, O, τ) over an insert-only graph, as pure functions. Given a tree, the open
asks, a random source and the spend, it answers what to expand next, what the author sees of the
tree, how nodes compare and whether the search is over. Nothing here reads a clock, a file or a
database; everything is derived from nodes and asks."""

from .fitness import (
    MARGIN,
    Change,
    Figures,
    Prediction,
    against_parent,
    compare,
    dominates,
    eligible,
    figures,
    fitness,
    interval,
    meeting,
    prediction,
    progress,
    rank,
    ratio,
    stalled_for,
    undominated,
)
from .memory import PATIENCE, History, decide, history
from .parameters import Searched, affordable, next_to_tune, searched
from .policies import SelectionPolicy, ask_random, create_policy, policy_names
from .termination import ROOFLINE, STALL_AFTER, Reason, Termination, no_winner, room, terminate
from .tree import ROOT, Ask, Expansion, Meeting, MemoryOperator, Node, Role, Tree, apart
from .unmet_goals import unmet_goals

__all__ = [
    "MARGIN",
    "PATIENCE",
    "ROOFLINE",
    "ROOT",
    "STALL_AFTER",
    "Ask",
    "Change",
    "Expansion",
    "Figures",
    "History",
    "Meeting",
    "MemoryOperator",
    "Node",
    "Prediction",
    "Reason",
    "Role",
    "Searched",
    "SelectionPolicy",
    "Termination",
    "Tree",
    "affordable",
    "against_parent",
    "apart",
    "ask_random",
    "compare",
    "create_policy",
    "decide",
    "dominates",
    "eligible",
    "figures",
    "fitness",
    "history",
    "interval",
    "meeting",
    "next_to_tune",
    "no_winner",
    "policy_names",
    "prediction",
    "progress",
    "rank",
    "ratio",
    "room",
    "searched",
    "stalled_for",
    "terminate",
    "undominated",
    "unmet_goals",
]
