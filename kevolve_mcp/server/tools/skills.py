"""skill_record."""

from __future__ import annotations

from typing import Annotated, Any

from mcp.server.mcpserver import Context
from mcp.types import CallToolResult
from pydantic import Field

from harness.types import to_json
from kevolve_mcp.sessions.types import SkillRequest

from .. import arguments as a
from ..context import author, service
from ..results import SkillReply, answer, said
from ..wording import rest


async def skill_record(
    ctx: Context[Any],
    session_id: a.SessionId,
    node_id: Annotated[str, Field(description="The node that has the pattern")],
    title: Annotated[str, Field(description="What to do, in a few words")],
    mechanism: Annotated[
        str, Field(description="Why it is faster, without figures of one machine")
    ],
    parent_id: Annotated[
        str, Field(description='Node without it; default: the parent; "n0": the baseline')
    ] = "",
    preconditions: Annotated[str, Field(description="When it applies")] = "",
    counter_indications: Annotated[str, Field(description="When it does not, or hurts")] = "",
    code: Annotated[
        str,
        Field(
            description="Lines of node_id that show it; default: the difference of the two nodes"
        ),
    ] = "",
    pattern: Annotated[
        dict[str, list[str]] | None,
        Field(
            description=(
                "Tasks it fits: operators, without, only, families, dtypes; default: those like "
                "this session's task"
            )
        ),
    ] = None,
) -> Annotated[CallToolResult, SkillReply]:
    """Propose a reusable skill from two measured nodes. Refused unless node_id was measured faster
    than parent_id, the baseline and the best node before it with an interval above 1, or if the
    text contains figures, paths or commands to the reader. For a known skill the pair becomes
    further evidence. Other sessions see a skill once it is accepted: measured on two tasks or
    devices, or by a person."""
    request = SkillRequest(
        session_id,
        node_id,
        parent_id,
        title,
        mechanism,
        preconditions,
        counter_indications,
        code,
        pattern or {},
    )
    view = await (await service(ctx)).record_skill(request, author=author(ctx))
    phrase = rest.skill(view)
    return answer(phrase, SkillReply(**said(phrase), skill=to_json(view)))
