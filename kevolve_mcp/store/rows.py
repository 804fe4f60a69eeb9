"""Helpers of the store: readable ids, rows that exist once, the lock of a session."""

from __future__ import annotations

import difflib
import re
from typing import Any

from sqlalchemy import Connection, Row, Table, and_, func, insert, select
from sqlalchemy.exc import IntegrityError

from harness.types import from_json
from kevolve_mcp.errors import Conflict, NotFound

from . import schema
from .remembered import SessionOutcome

SLICE = 500  # ids or digests named in one query
_NAMES = {"n": "node", "a": "ask", "j": "job"}


def number(identifier: str, letter: str) -> int:
    """Return the number in an id, 17 for "n17". Raises NotFound for anything else."""
    if not re.fullmatch(letter + r"[0-9]{1,9}", identifier):
        name = _NAMES[letter]
        raise NotFound(
            f"{identifier!r} is not a valid {name} id.", f"A {name} id looks like {letter}12."
        )
    return int(identifier[1:])


def insert_once(
    connection: Connection, table: Table, key: dict[str, Any], values: dict[str, Any]
) -> bool:
    """Insert a row unless one with `key` exists, and return whether it was inserted. Safe against
    concurrent inserts."""
    where = and_(*(table.c[name] == value for name, value in key.items()))
    if connection.execute(select(1).select_from(table).where(where)).first():
        return False
    try:
        with connection.begin_nested():
            connection.execute(insert(table).values(**key, **values))
    except IntegrityError:
        if not connection.execute(select(1).select_from(table).where(where)).first():
            raise
        return False
    return True


def next_seq(connection: Connection, table: Table, owner: str, value: str) -> int:
    """Return the highest seq among the rows whose `owner` column is `value`, plus 1; the caller
    holds a lock."""
    return (
        int(
            connection.execute(
                select(func.coalesce(func.max(table.c.seq), 0)).where(table.c[owner] == value)
            ).scalar_one()
        )
        + 1
    )


def session_row(
    connection: Connection, session: str, *, lock: bool = False, opened: bool = False
) -> Row[Any]:
    """Return the row of a session. lock: whether writers of this session wait until the transaction
    ends (on SQLite all writers do). opened: whether to raise Conflict when it is over. Raises
    NotFound, naming similar ids."""
    query = select(schema.sessions).where(schema.sessions.c.id == session)
    row = connection.execute(query.with_for_update() if lock else query).one_or_none()
    if row is None:
        known = list(
            connection.execute(
                select(schema.sessions.c.id).order_by(schema.sessions.c.created.desc()).limit(500)
            ).scalars()
        )
        near = difflib.get_close_matches(session, known, 3, 0.5) or known[:3]
        raise NotFound(
            f"there is no session {session!r}.",
            f"Known: {', '.join(near)}." if near else "No session was opened yet.",
        )
    if opened and row.state != "open":
        raise Conflict(
            f"session {session} is {row.state}.", "Open a new session to continue the search."
        )
    return row


def outcome_of(row: Row[Any]) -> SessionOutcome | None:
    """Return the outcome of the session of this row, None for one that is not finished."""
    return from_json(SessionOutcome, row.outcome) if row.outcome else None
