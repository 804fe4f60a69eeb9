"""The driver: the autonomous loop as an MCP client of the server and nothing else.

`connect` opens a connection that survives a killed server, `Driver` runs the loop over it with an author, and whoever listens
gets a stream of frozen events. The driver keeps nothing that the server does not keep.
"""

from . import events
from .answers import CaseFacts, Ending, EvaluationFacts, NodeFacts, SessionFacts, SignalFacts, SkillFacts, Told, UnreadableAnswer
from .client import SessionClient
from .connection import Answer, Connection, OpenClient, Tools, connect, read_result
from .events import Event
from .loop import Driver, Outcome
from .options import Options

__all__ = [
    "Answer",
    "CaseFacts",
    "Connection",
    "Driver",
    "Ending",
    "EvaluationFacts",
    "Event",
    "NodeFacts",
    "OpenClient",
    "Options",
    "Outcome",
    "SessionClient",
    "SessionFacts",
    "SignalFacts",
    "SkillFacts",
    "Told",
    "Tools",
    "UnreadableAnswer",
    "connect",
    "events",
    "read_result",
]
