"""`kevolve serve`: the MCP server over stdio, the same as `kevolve-mcp`."""

from __future__ import annotations


def serve() -> None:
    """Serve MCP over stdin and stdout, for a client to start. The same program as kevolve-mcp."""
    from kevolve_mcp.server.main import main

    main()
