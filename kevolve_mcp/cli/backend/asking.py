"""Calls of tools from a command, which waits for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio

if TYPE_CHECKING:
    from kevolve_mcp.driver import Answer

    from .base import Backend

WAIT_S = 20.0  # of one call that waits for a job; a longer job is asked for again


def look_up(backend: Backend, tool: str, arguments: dict[str, Any]) -> Answer:
    """Call a tool that only looks. Raises the KEvolveError that it ends with."""

    async def run() -> Answer:
        async with backend.looking() as tools:
            return await tools.call(tool, arguments)

    return anyio.run(run)


def look_through(
    backend: Backend, tool: str, arguments: dict[str, Any], *, place: str = "cursor"
) -> list[Answer]:
    """Take all parts of an answer that comes in several, each of which says where the next begins.
    Raises as `look_up`.

    Args:
        backend: Who is asked.
        tool: A tool that only looks.
        arguments: Of the first call.
        place: The argument that says where a part begins.
    """

    async def run() -> list[Answer]:
        async with backend.looking() as tools:
            parts = [await tools.call(tool, arguments)]
            while following := parts[-1].data.get("next_cursor"):
                parts.append(await tools.call(tool, {**arguments, place: following}))
            return parts

    return anyio.run(run)


def done(backend: Backend, tool: str, arguments: dict[str, Any], *, python: str = "") -> Answer:
    """Call a tool that starts a job, and wait for that. Raises as `look_up`.

    Args:
        backend: Who is asked.
        tool: A tool that may answer before its job is done.
        arguments: Of the call.
        python: The interpreter that evaluates; "" for the configured one.
    """

    async def run() -> Answer:
        from kevolve_mcp.driver import settled

        async with backend.tools(python) as tools:
            return await settled(tools, await tools.call(tool, arguments), WAIT_S)

    return anyio.run(run)
