"""tree_view without the protocol. The command line calls it in its own process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.types import to_json
from kevolve_mcp.actions import Action

from .results import Phrase, ViewReply, left_of, said

if TYPE_CHECKING:
    from kevolve_mcp import api
    from kevolve_mcp.sessions import Looking


async def tree(
    sessions: Looking,
    session_id: str = "",
    node_id: str = "",
    evaluation_id: str = "",
    diff_base: str = "",
    section: str = "",
    cursor: int = 0,
    response_format: str = "concise",
) -> tuple[Phrase, ViewReply]:
    """tree_view."""
    arguments = {
        "session_id": session_id,
        "node_id": node_id,
        "evaluation_id": evaluation_id,
        "diff_base": diff_base,
        "section": section,
    }
    view = await sessions.tree(**arguments, cursor=cursor, detailed=response_format == "detailed")
    actions: tuple[Action, ...] = ()
    if view.next_cursor:
        actions = (_rest_of(view, arguments),)
    elif view.kind == "tree" and view.session is not None and view.session.state == "open":
        actions = (Action("next_ask", session=view.session.id),)
    elif view.kind == "template":
        actions = (Action("check", session=session_id),)
    advice = "fill it in" if view.kind == "template" and not view.next_cursor else ""
    phrase = Phrase(view.heading, [view.text] if view.text else [], actions, advice)
    data = to_json(view)
    for name in ("heading", "text", "next_cursor", "remaining", "kind"):
        data.pop(name)
    data = {name: value for name, value in data.items() if value}
    reply = ViewReply(
        **said(phrase, left_of(view.session)),
        kind=view.kind,
        data=data,
        next_cursor=view.next_cursor,
    )
    return phrase, reply


def _rest_of(view: api.View, arguments: dict[str, str]) -> Action:
    purpose = f"for the rest ({view.remaining:,} characters)"
    if view.kind == "sessions":
        return Action("view_sessions", purpose, cursor=view.next_cursor)
    return Action(
        "view",
        purpose,
        session=arguments["session_id"],
        node=arguments["node_id"],
        evaluation=arguments["evaluation_id"],
        other=arguments["diff_base"],
        section=arguments["section"],
        cursor=view.next_cursor,
    )
