"""The driver: the autonomous loop as an MCP client of the server and nothing else.

`connect` opens a connection that survives a killed server, `Driver` runs the loop over it with an
author, and a listener gets a stream of frozen events. The driver keeps no state that the server
does not keep.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kevolve_mcp.lazy import loader

if TYPE_CHECKING:
    from . import events
    from .answers import (
        Told,
        UnreadableAnswer,
    )
    from .client import SessionClient, settled
    from .connection import Connection, OpenClient, connect, read_result
    from .events import Event
    from .loop import Driver, RunOutcome
    from .options import Options
    from .tools import Answer, Tools

__all__ = [
    "Answer",
    "Connection",
    "Driver",
    "Event",
    "OpenClient",
    "Options",
    "RunOutcome",
    "SessionClient",
    "Told",
    "Tools",
    "UnreadableAnswer",
    "connect",
    "events",
    "read_result",
    "settled",
]

__getattr__ = loader(
    __name__,
    {
        "answers": (
            "Told",
            "UnreadableAnswer",
        ),
        "client": ("SessionClient", "settled"),
        "connection": ("Connection", "OpenClient", "connect", "read_result"),
        "events": ("Event",),
        "loop": ("Driver", "RunOutcome"),
        "options": ("Options",),
        "tools": ("Answer", "Tools"),
        "": ("events",),
    },
)
