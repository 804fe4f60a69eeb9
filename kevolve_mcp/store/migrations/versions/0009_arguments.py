"""The last stage of an evaluation and what a job of finishing was asked for have other names."""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

NAMES = {"inline": "include_files"}


def upgrade() -> None:
    op.execute("alter table evaluations rename column until to through")
    _rewrite("jobs", "payload")


def _rewrite(name: str, column: str) -> None:
    """Give the JSON of one column its present words; rows that hold no old one stay as they are."""
    connection = op.get_bind()
    key = sa.inspect(connection).get_pk_constraint(name)["constrained_columns"]
    table = sa.table(name, *map(sa.column, key), sa.column(column, sa.JSON()))
    for row in connection.execute(sa.select(table)).all():
        kept, present = row[-1], _renamed(row[-1])
        if present != kept:
            which = [table.c[part] == value for part, value in zip(key, row, strict=False)]
            connection.execute(sa.update(table).where(*which).values({column: present}))


def _renamed(value: Any) -> Any:
    if isinstance(value, dict):
        return {NAMES.get(k, k): _renamed(v) for k, v in value.items()}
    return [_renamed(v) for v in value] if isinstance(value, list) else value
