"""The fourteen tools, in the order in which every connection lists them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import cache

from mcp.server.mcpserver.tools import Tool
from mcp.types import CallToolResult, ToolAnnotations

from kevolve_mcp import api

from ..teach import slim, teaching
from . import jobs, kernels, looking, sessions, skills

READS = ToolAnnotations(read_only_hint=True, open_world_hint=False)
WRITES = ToolAnnotations(
    read_only_hint=False, destructive_hint=False, idempotent_hint=True, open_world_hint=False
)
ADDS = ToolAnnotations(
    read_only_hint=False, destructive_hint=False, idempotent_hint=False, open_world_hint=False
)
ENDS = ToolAnnotations(
    read_only_hint=False, destructive_hint=True, idempotent_hint=True, open_world_hint=False
)

TOOLS: tuple[tuple[str, Callable[..., Awaitable[CallToolResult]], ToolAnnotations], ...] = (
    ("Describe targets", looking.target_describe, READS),
    ("Open a session", sessions.session_open, WRITES),
    ("Ask what to write next", sessions.session_next, ADDS),
    ("Finish a session", sessions.session_finish, ENDS),
    ("Compile a kernel", kernels.kernel_compile, WRITES),
    ("Check a kernel", kernels.kernel_check, WRITES),
    ("Profile a kernel", kernels.kernel_profile, WRITES),
    ("Submit a kernel", kernels.kernel_submit, WRITES),
    ("View a tree", looking.tree_view, READS),
    ("Search knowledge", looking.knowledge_search, READS),
    ("Read a page", looking.knowledge_read, READS),
    ("Record a skill", skills.skill_record, WRITES),
    ("Wait for a job", jobs.job_wait, READS),
    ("Cancel a job", jobs.job_cancel, ENDS),
)


# what a result holds: the field, its type, and the fields of the type that are listed in full. Only
# these tools have such a list, since every client pays for it in tokens
SHAPES: dict[str, tuple[str, type, tuple[str, ...]]] = {
    "kernel_profile": ("result", api.Evaluated, ("evaluation",)),
    "kernel_submit": (
        "result",
        api.Evaluated,
        ("evaluation", "evaluation.signals", "evaluation.cases"),
    ),
    "session_finish": ("result", api.Finished, ()),
}


@cache
def described() -> tuple[Tool, ...]:
    """Return all tools with their schemas, shared by the servers of this process: deriving them
    is the slowest part of making a server."""
    tools = [
        Tool.from_function(teaching(function), title=title, annotations=hints)
        for title, function, hints in TOOLS
    ]
    for tool in tools:
        slim(tool)
        if tool.name in SHAPES and tool.output_schema is not None:
            field, kind, opened = SHAPES[tool.name]
            shape = api.outline(kind, opened)
            tool.output_schema["properties"][field] = {**shape, "type": ["object", "null"]}
    return tuple(tools)


__all__ = ["TOOLS", "described"]
