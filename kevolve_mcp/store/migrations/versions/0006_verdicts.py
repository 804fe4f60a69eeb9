"""The verdicts of a comparison have other names."""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

NAMES = {"same": "equivalent", "unclear": "inconclusive"}


def upgrade() -> None:
    for old, new in NAMES.items():
        op.execute(f"update case_results set verdict = '{new}' where verdict = '{old}'")
    _rewrite("case_results", "data")


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
        return {k: NAMES.get(v, v) if k == "verdict" else _renamed(v) for k, v in value.items()}
    return [_renamed(v) for v in value] if isinstance(value, list) else value
