"""Selection policies: which nodes of the tree to expand next. `create_policy` makes one by name;
installed packages add theirs under the entry point group "kevolve.policies" and prove them with
`kevolve_mcp.search.testing`."""

from .base import FakePolicy, SelectionPolicy, ask_random
from .evolutionary import Evolutionary
from .greedy import Greedy
from .mcts import TreeSearch
from .registry import DEFAULT, GROUP, create_policy, policy_names

__all__ = [
    "DEFAULT",
    "GROUP",
    "Evolutionary",
    "FakePolicy",
    "Greedy",
    "SelectionPolicy",
    "TreeSearch",
    "ask_random",
    "create_policy",
    "policy_names",
]
