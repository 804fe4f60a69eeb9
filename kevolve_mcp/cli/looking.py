"""`kevolve sessions`, `tree`, `show`, `diff`: looking without changing anything."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kevolve_mcp import api
from kevolve_mcp.errors import UsageError

from .options import Json, NodeId, Server, SessionId, Token
from .terminal import print_json
from .terminal import show as show_view

if TYPE_CHECKING:
    from kevolve_mcp.driver import Answer

    from .remote import Remote

# no session's id looks like that: they end in a dash and four digits of a hash
EVALUATION = re.compile(r"e\d+")
Section = Annotated[
    str,
    typer.Option(
        "--section",
        help=(
            "summary, source, log, profile, assembly, cases, stages, or context (what its author "
            "was shown); of a session alone: template."
        ),
    ),
]


def sessions(server: Server = "", token: Token = "", json: Json = False) -> None:
    """List all sessions of this home."""
    from kevolve_mcp.driver.answers import read

    from .lookup import place
    from .render.tree import sessions_table

    rows = pages({}, "sessions", place(server, token))[1]
    if json:
        return print_json({"sessions": rows})
    return show_view(sessions_table([read(api.Session, row) for row in rows]))


def tree(session: SessionId, server: Server = "", token: Token = "", json: Json = False) -> None:
    """Show a session's search tree: every node with its speed-up, parents and what was changed."""
    from kevolve_mcp.driver.answers import read

    from .lookup import place
    from .render.tree import tree_view

    data, rows = pages({"session_id": session}, "nodes", place(server, token))
    if json:
        return print_json({"session": data.get("session"), "nodes": rows})
    return show_view(
        tree_view(read(api.Session, data.get("session")), [read(api.Node, row) for row in rows])
    )


def show(
    session: Annotated[
        str,
        typer.Argument(
            metavar="SESSION", help="A session's id; or an evaluation's, e.g. e11, alone."
        ),
    ],
    node: Annotated[
        str,
        typer.Argument(
            metavar="[NODE]", help="A node's id, e.g. n17, or an evaluation's, e.g. e11."
        ),
    ] = "",
    section: Section = "",
    server: Server = "",
    token: Token = "",
    json: Json = False,
) -> None:
    """Show one node, or one evaluation: its verdict, cases and signals, or one section of it."""
    from .lookup import place

    if evaluation := next(
        (name for name in (node, session) if name and EVALUATION.fullmatch(name)), ""
    ):
        return _show({"evaluation_id": evaluation, "section": section}, place(server, token), json)
    if not node and section != "template":
        raise UsageError(
            "no node named",
            f"kevolve show {session} NODE; `kevolve tree {session}` lists the nodes.",
        )
    return _show(
        {"session_id": session, "node_id": node, "section": section}, place(server, token), json
    )


def diff(
    session: SessionId,
    node: NodeId,
    other: Annotated[
        str,
        typer.Argument(metavar="[OTHER]", help='The node to compare with; "parent" by default.'),
    ] = "parent",
    server: Server = "",
    token: Token = "",
    json: Json = False,
) -> None:
    """Show how a node's source differs from another's, by default from its parent's."""
    from .lookup import place

    _show({"session_id": session, "node_id": node, "diff_base": other}, place(server, token), json)


def pages(
    arguments: dict[str, Any], field: str, remote: Remote | None = None
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """All pages of a tree_view: the data of the first, and the rows of `field` of all."""
    from .lookup import look_up

    first: dict[str, Any] = {}
    rows: dict[str, dict[str, Any]] = {}
    cursor = 0
    while True:
        answer = look_up("tree_view", {**arguments, "cursor": cursor}, remote)
        data = dict(answer.data["data"])
        first = first or data
        rows.update({row["id"]: row for row in data.get(field, ())})
        cursor = answer.data.get("next_cursor") or 0
        if not cursor:
            return first, list(rows.values())


def _show(arguments: dict[str, Any], remote: Remote | None, json: bool) -> None:
    from .lookup import look_up

    given = {name: value for name, value in arguments.items() if value}
    pieces: list[Answer] = []
    cursor = 0
    while not pieces or cursor:
        pieces.append(look_up("tree_view", {**given, "cursor": cursor}, remote))
        cursor = pieces[-1].data.get("next_cursor") or 0
    heading, data = str(pieces[0].data["verdict"]), dict(pieces[0].data["data"])
    if not json and arguments.get("section") == "cases" and data.get("evaluation"):
        return _show_cases(heading, data["evaluation"])
    text = "\n".join([heading, *(piece.body for piece in pieces)])
    return print_json({**data, "text": text}) if json else typer.echo(text)


def _show_cases(heading: str, evaluation: dict[str, Any]) -> None:
    """As a table; every field of them is in --json."""
    from kevolve_mcp.driver.answers import read

    from .render.cases import cases_table, unclear_note

    typer.echo(heading)
    cases = read(api.Evaluation, evaluation).cases
    show_view(cases_table(cases))
    details = (f"{c.name}: {c.detail}" for c in cases if c.detail)
    for text in filter(None, (*details, unclear_note(cases))):
        typer.echo(text)
