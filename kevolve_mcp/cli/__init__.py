"""The command line: one file per command group, with pure renderers in `render`.

A command parses its arguments, calls one component below (an executor, or the server through an MCP
client) and renders the answer. Heavy modules are imported inside the commands, so that
`kevolve --help` answers at once.
"""

from .main import app, main

__all__ = ["app", "main"]
