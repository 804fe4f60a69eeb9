"""target_describe."""

from __future__ import annotations

from typing import Annotated, Any

from mcp.server.mcpserver import Context
from mcp.types import CallToolResult
from pydantic import Field

from harness.types import to_json

from ..answer import answer
from ..arguments import parse_target
from ..context import service
from ..results import MachineReply, said
from ..waiting import told
from ..wording import rest


async def target_describe(
    ctx: Context[Any], target: Annotated[str, Field(description="Only this one; default: all")] = ""
) -> Annotated[CallToolResult, MachineReply]:
    """Which targets, languages, profilers, interpreters and isolation levels work on the server's
    machine, and why the others don't. Starts the evaluator on the first call (seconds). Call it
    first when session_open refuses a target."""
    name = parse_target(target) if target else ""
    running = await service(ctx)
    view = await told(ctx, lambda progress: running.describe(name))
    phrase = rest.machine(view, name)
    return answer(phrase, MachineReply(**said(phrase), machine=to_json(view)))
