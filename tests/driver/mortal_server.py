"""A tiny MCP server over stdio that can be told to die. `die` kills the process the first time and
answers the second."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Annotated

from mcp.server import MCPServer
from mcp.types import CallToolResult, TextContent
from pydantic import BaseModel


class Said(BaseModel):
    pid: int


server = MCPServer("mortal", log_level="ERROR")


def _answer() -> CallToolResult:
    return CallToolResult(
        content=[TextContent(type="text", text="alive")], structured_content={"pid": os.getpid()}
    )


@server.tool()
async def who() -> Annotated[CallToolResult, Said]:
    """The process that answers."""
    return _answer()


@server.tool()
async def die(marker: str) -> Annotated[CallToolResult, Said]:
    """Kill this process unless the marker file says that it happened already; "" kills always."""
    if not marker or not Path(marker).exists():
        if marker:
            Path(marker).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return _answer()


@server.tool()
async def refuse() -> Annotated[CallToolResult, Said]:
    """An error as KEvolve's server phrases it."""
    error = {
        "code": "conflict",
        "message": "the session is finished",
        "hint": "Open another.",
        "retryable": False,
    }
    return CallToolResult(
        is_error=True, content=[TextContent(type="text", text="Error")], structured_content=error
    )


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print("no server today", file=sys.stderr)
        sys.exit(3)
    server.run()
