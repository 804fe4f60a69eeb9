"""What callers see, whatever the surface: the server's structured content, what the driver reads,
and the JSON of the command line and of packages. Frozen values that `harness.types.to_json` turns
into JSON, each made from the domain's value in this package alone. A field that changes here
changes the public interface.
"""

from .evaluations import Evaluation, Signal, evaluation, processes
from .nodes import Node, best, lineage, node
from .results import Compared, Depth, Duel, Evaluated, Finished, Opened, Skill, Trial, Tuned
from .schema import outline
from .sessions import Exported, Left, Session, Similar, TaskCase, exported, left, session, similar

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
