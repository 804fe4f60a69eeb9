"""Count evaluations per session from e1; their ids were counted over the whole home."""

import re
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

WIDE = ("evaluation", "parent_evaluation")  # columns with a session's name before the id
# keys in JSON: of an outcome, an evaluation and a node; ids of nodes and asks have other letters
KEYS = ("confirmed", "measured", "id", "evaluation_id")
ID = re.compile(r"e([0-9]{1,9})")


def upgrade() -> None:
    op.add_column("evaluations", sa.Column("seq", sa.Integer(), nullable=True))
    op.execute(
        "update evaluations set seq = (select count(*) from evaluations e where "
        "e.session = evaluations.session and e.id <= evaluations.id) where session is not null"
    )
    op.drop_index(op.f("ix_evaluations_session"), table_name="evaluations")
    op.create_index(
        op.f("ix_evaluations_session_seq"), "evaluations", ["session", "seq"], unique=True
    )
    if op.get_bind().dialect.name != "sqlite":  # SQLite has no column widths
        for column in WIDE:
            op.alter_column(
                "skill_evidence", column, type_=sa.String(100), existing_type=sa.String(20)
            )
    _rename()


def _rename() -> None:
    """Rename ids in the outcomes of sessions, the evidence of skills and the results of jobs."""
    connection = op.get_bind()
    e = sa.table("evaluations", *map(sa.column, ("id", "session", "seq")))
    rows = {row.id: row for row in connection.execute(sa.select(e))}

    def present(value: Any, session: str | None) -> Any:
        found = ID.fullmatch(value) if isinstance(value, str) else None
        row = rows.get(int(found[1])) if found else None
        if row is None:
            return value
        if row.session is None:
            return f"x{row.id}"
        return f"e{row.seq}" if row.session == session else f"{row.session}/e{row.seq}"

    evidence = sa.table(
        "skill_evidence", *map(sa.column, ("skill", "seq", "session", "origin", *WIDE))
    )
    # imported evidence names evaluations of another home
    for row in connection.execute(sa.select(evidence).where(evidence.c.origin == "")).all():
        which = (evidence.c.skill == row.skill, evidence.c.seq == row.seq)
        values = {column: present(getattr(row, column), row.session) for column in WIDE}
        connection.execute(sa.update(evidence).where(*which).values(values))

    def renamed(value: Any, session: str | None, key: str = "") -> Any:
        if isinstance(value, list):
            return [renamed(inner, session) for inner in value]
        if isinstance(value, dict):
            return {name: renamed(inner, session, name) for name, inner in value.items()}
        return present(value, session) if key in KEYS else value

    for name, column, owner in (("sessions", "outcome", "id"), ("jobs", "result", "session")):
        table = sa.table(name, sa.column("id"), sa.column("session"), sa.column(column, sa.JSON()))
        for row in connection.execute(sa.select(table.c.id, table.c[owner], table.c[column])).all():
            values = {column: renamed(row[2], row[1])}
            if values[column] != row[2]:
                connection.execute(sa.update(table).where(table.c.id == row[0]).values(values))
