"""The ids of evaluations. A session counts its own from e1, like its nodes and asks. An evaluation
of another session, whose answer it uses, has that session's name: "rows-7f3a/e3". One outside of
sessions is "x40" everywhere."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence

from sqlalchemy import Connection, select

from kevolve_mcp.actions import Action
from kevolve_mcp.errors import NotFound, UsageError

from . import schema
from .rows import SLICE, next_seq, session_row

_ID = re.compile(r"(?:(?P<owner>[^/]+)/)?e(?P<seq>[0-9]{1,9})|x(?P<row>[0-9]{1,9})")


def name(row: int, owner: str | None, seq: int | None, session: str | None) -> str:
    """Return the id of an evaluation. row, owner, seq: those of the evaluation. session: the
    session in which it is named, None outside of sessions."""
    if owner is None:
        return f"x{row}"
    return f"e{seq}" if owner == session else f"{owner}/e{seq}"


def names(connection: Connection, rows: Iterable[int], session: str | None) -> dict[int, str]:
    """Return the ids in this session, by row id."""
    e, wanted, found = schema.evaluations, sorted(set(rows)), dict[int, str]()
    for start in range(0, len(wanted), SLICE):
        query = select(e.c.id, e.c.session, e.c.seq).where(
            e.c.id.in_(wanted[start : start + SLICE])
        )
        for row in connection.execute(query):
            found[row.id] = name(row.id, row.session, row.seq, session)
    return found


def row_ids(
    connection: Connection, session: str | None, identifiers: Sequence[str]
) -> dict[str, int]:
    """Return row ids by id in this session, without those that do not exist. Raises NotFound for an
    invalid id, UsageError for an id without the session's name."""
    e, found = schema.evaluations, dict[str, int]()
    by_owner: defaultdict[str | None, dict[int, str]] = defaultdict(dict)
    for identifier in identifiers:
        owner, number = _parsed(session, identifier)
        by_owner[owner][number] = identifier
    for owner, numbers in by_owner.items():
        counted = e.c.id if owner is None else e.c.seq
        wanted = sorted(numbers)
        for start in range(0, len(wanted), SLICE):
            query = select(e.c.id, counted.label("number")).where(
                e.c.session == owner, counted.in_(wanted[start : start + SLICE])
            )
            for row in connection.execute(query):
                found[numbers[row.number]] = row.id
    return found


def row_id(connection: Connection, session: str | None, identifier: str) -> int:
    """Return the row id of one evaluation. Raises NotFound, also for its session, and
    UsageError."""
    found = row_ids(connection, session, [identifier])
    if identifier in found:
        return found[identifier]
    owner, number = _parsed(session, identifier)
    if owner is None:
        raise NotFound(
            f"there is no evaluation {identifier} outside of sessions.",
            "Evaluations of a session are named with the session: e1, e2 and so on.",
        )
    session_row(connection, owner)
    last = next_seq(connection, schema.evaluations, "session", owner) - 1
    raise NotFound(
        f"session {owner} has no evaluation e{number}.",
        f"It has e1 to e{last}." if last else "It has no evaluation yet.",
        Action("view", "names the evaluation of each node", session=owner),
    )


def _parsed(session: str | None, identifier: str) -> tuple[str | None, int]:
    """Its session and its number there; without a session its row id."""
    parts = _ID.fullmatch(identifier)
    if parts is None:
        raise NotFound(
            f"{identifier!r} is not an evaluation id.",
            "An evaluation id looks like e12, with its session, or x12 outside of sessions.",
        )
    if parts["row"]:
        return None, int(parts["row"])
    owner = parts["owner"] or session
    if not owner:
        raise UsageError(
            f"the evaluation {identifier} was named without its session",
            "Name the session, too: evaluation ids count per session.",
            Action("view_sessions", "lists them"),
        )
    return owner, int(parts["seq"])
