"""Store authors and origins as values, which older rows have as texts."""

import json
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    connection = op.get_bind()
    asks = _table("asks", "author")
    for row in connection.execute(sa.select(asks)).all():
        values = {"annotations": _ask(row.annotations), "author": _author_text(row.author)}
        _write(connection, asks, row, values)
    nodes = _table("nodes", "origin")
    for row in connection.execute(sa.select(nodes)).all():
        origin = _origin_text(row.origin)
        changed: dict[str, Any] = {"annotations": _node(row.annotations), "origin": origin}
        _write(connection, nodes, row, changed)


def _table(name: str, text: str) -> sa.TableClause:
    return sa.table(
        name,
        sa.column("session", sa.String),
        sa.column("seq", sa.Integer),
        sa.column("annotations", sa.JSON),
        sa.column(text, sa.Text),
    )


def _write(connection: sa.Connection, table: sa.TableClause, row: Any, values: Any) -> None:
    same = (table.c.session == row.session, table.c.seq == row.seq)
    connection.execute(sa.update(table).where(*same).values(values))


def _ask(notes: dict[str, Any]) -> dict[str, Any]:
    kept = {k: v for k, v in notes.items() if k not in _MOVED}
    if "candidate" in notes:
        kept["start"] = {
            "candidate": notes["candidate"],
            "origin": _origin(str(notes.get("origin", ""))),
            "note": notes.get("note", ""),
        }
    if "injected" in notes:
        kept["lent"] = notes["injected"]
    return kept


def _node(notes: dict[str, Any]) -> dict[str, Any]:
    kept = {k: v for k, v in notes.items() if k not in _MOVED}
    return {**kept, "author": _author(str(notes.get("author", "")))}


_MOVED = ("candidate", "origin", "note", "injected", "author")


def _author(text: str) -> dict[str, Any]:
    """ "NAME via HOST PID STARTED", or a name alone."""
    name, mark, where = text.rpartition(" via ")
    words = where.split()
    if mark and len(words) == 3 and words[1].isdigit() and words[2].isdigit():
        name = "" if name == "somebody" else name
        return {"name": name, "host": words[0], "pid": int(words[1]), "started": int(words[2])}
    return {"name": text, "host": "", "pid": 0, "started": 0}


def _author_text(text: str) -> str:
    return json.dumps(_author(text), sort_keys=True) if text else ""


def _origin(text: str) -> dict[str, str]:
    kind, mark, name = text.partition(": ")
    if mark and kind in ("skill", "task"):
        return {"kind": kind, "name": name}
    return {"kind": "user_file", "name": ""}


def _origin_text(text: str | None) -> str | None:
    return None if text is None else json.dumps(_origin(text), sort_keys=True)
