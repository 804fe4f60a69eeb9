"""The driver: the autonomous loop as an MCP client of the server and nothing else.

`connect` opens a connection that survives a killed server, `Driver` runs the loop over it with an
author, and whoever listens gets a stream of frozen events. The driver keeps nothing that the server
does not keep.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import events
    from .answers import (
        CaseFacts,
        Ending,
        EvaluationFacts,
        ExportedFacts,
        NodeFacts,
        SessionFacts,
        SignalFacts,
        SkillFacts,
        Told,
        UnreadableAnswer,
    )
    from .client import SessionClient
    from .connection import Connection, OpenClient, connect, read_result
    from .events import Event
    from .loop import Driver, Outcome
    from .options import Options
    from .tools import Answer, Tools

_HOMES = {
    "answers": (
        "CaseFacts",
        "Ending",
        "EvaluationFacts",
        "ExportedFacts",
        "NodeFacts",
        "SessionFacts",
        "SignalFacts",
        "SkillFacts",
        "Told",
        "UnreadableAnswer",
    ),
    "client": ("SessionClient",),
    "connection": ("Connection", "OpenClient", "connect", "read_result"),
    "events": ("Event",),
    "loop": ("Driver", "Outcome"),
    "options": ("Options",),
    "tools": ("Answer", "Tools"),
}

__all__ = [
    "Answer",
    "CaseFacts",
    "Connection",
    "Driver",
    "Ending",
    "EvaluationFacts",
    "Event",
    "ExportedFacts",
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


def __getattr__(name: str) -> Any:
    """Loaded when used: who only shows what is there needs no client, and a client takes half a
    second to import."""
    if name == "events":
        return importlib.import_module(".events", __name__)
    home = next((module for module, names in _HOMES.items() if name in names), None)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f".{home}", __name__), name)
