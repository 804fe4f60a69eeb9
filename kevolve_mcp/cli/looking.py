"""`kevolve sessions`, `tree`, `show`, `diff`: the read-only commands."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kevolve_mcp.errors import UsageError

from .options import Json, NodeId, Server, SessionId, Token
from .terminal import print_json, say
from .terminal import show as show_view

if TYPE_CHECKING:
    from .backend import Backend

# session ids never match: they end in a dash and four hexadecimal digits
EVALUATION = re.compile(r"(?:[^/]+/)?e\d+|x\d+")
# sections that are not prose, or may be copied: they are printed unwrapped
VERBATIM = ("source", "log", "assembly", "context", "template")
Section = Annotated[
    str,
    typer.Option(
        "--section",
        help=(
            "summary, source, log, profile, assembly, cases, stages, or context (what its author "
            "was shown); for a session without NODE: template."
        ),
    ),
]


def sessions(server: Server = "", token: Token = "", json: Json = False) -> None:
    """List all sessions of this home."""
    from kevolve_mcp import api
    from kevolve_mcp.driver.answers import read

    from .backend import choose
    from .render.tree import sessions_table

    rows = pages({}, "sessions", choose(server, token))[1]
    if json:
        return print_json({"sessions": rows})
    return show_view(sessions_table([read(api.Session, row) for row in rows]))


def tree(session: SessionId, server: Server = "", token: Token = "", json: Json = False) -> None:
    """Show a session's search tree: every node with its speed-up, parents and what was changed."""
    from kevolve_mcp import api
    from kevolve_mcp.driver.answers import read

    from .backend import choose
    from .render.tree import tree_view

    data, rows = pages({"session_id": session}, "nodes", choose(server, token))
    if json:
        return print_json({"session": data.get("session"), "nodes": rows})
    return show_view(
        tree_view(read(api.Session, data.get("session")), [read(api.Node, row) for row in rows])
    )


def show(
    session: Annotated[
        str,
        typer.Argument(
            metavar="SESSION",
            help="A session's id, or the id of an evaluation outside of sessions, e.g. x11.",
        ),
    ],
    node: Annotated[
        str,
        typer.Argument(
            metavar="[NODE]",
            help="The id of a node, e.g. n17, or of an evaluation of the session, e.g. e11.",
        ),
    ] = "",
    section: Section = "",
    server: Server = "",
    token: Token = "",
    json: Json = False,
) -> None:
    """Show a node or an evaluation: its verdict, cases and signals, or one section of it."""
    from .backend import choose

    named = {"session_id": session, "node_id": node}
    if EVALUATION.fullmatch(node):
        named = {"session_id": session, "evaluation_id": node}
    elif EVALUATION.fullmatch(session) and not node:
        named = {"evaluation_id": session}
    elif not node and section != "template":
        raise UsageError(
            "no node named",
            f"kevolve show {session} NODE; `kevolve tree {session}` lists the nodes.",
        )
    return _show({**named, "section": section}, choose(server, token), json)


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
    from .backend import choose

    _show({"session_id": session, "node_id": node, "diff_base": other}, choose(server, token), json)


def pages(
    arguments: dict[str, Any], field: str, backend: Backend
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return all pages of a tree_view: the data of the first, and the rows of `field` of all."""
    from .backend import look_through

    parts = [answer.data["data"] for answer in look_through(backend, "tree_view", arguments)]
    rows = {row["id"]: row for data in parts for row in data.get(field, ())}
    return dict(parts[0]), list(rows.values())


def _show(arguments: dict[str, Any], backend: Backend, json: bool) -> None:
    from .backend import look_through

    named = {name: value for name, value in arguments.items() if value}
    pieces = look_through(backend, "tree_view", named)
    heading, data = str(pieces[0].data["verdict"]), dict(pieces[0].data["data"])
    if not json and arguments.get("section") == "cases" and data.get("evaluation"):
        return _show_cases(heading, data["evaluation"])
    text = "\n".join([heading, *(piece.body for piece in pieces)])
    if json:
        return print_json({**data, "text": text})
    verbatim = arguments.get("diff_base") or arguments.get("section") in VERBATIM
    return typer.echo(text) if verbatim else say(text)


def _show_cases(heading: str, evaluation: dict[str, Any]) -> None:
    """Show the cases as a table; --json has all their fields."""
    from kevolve_mcp import api
    from kevolve_mcp.driver.answers import read
    from kevolve_mcp.synthesis.wording import said

    from .render.cases import cases_table, unclear_note

    say(heading)
    cases = read(api.Evaluation, evaluation).cases
    show_view(cases_table(cases))
    details = (f"{c.name}: {said(c.detail)}" for c in cases if c.detail)
    for text in filter(None, (*details, unclear_note(cases))):
        say(text)
