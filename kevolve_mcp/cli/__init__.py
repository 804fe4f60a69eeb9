"""The command line: one file per command group, pure renderers beside them.

A command parses its arguments, calls one thing below (an executor, or the server through an MCP
client) and renders the answer. Everything heavy is imported inside the commands, so that
`kevolve --help` answers at once.
"""

from .main import app, main

__all__ = ["app", "main"]
