"""Helpers of migrations that rename words in a JSON column. Their behaviour must not change, since
old migrations rely on it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import sqlalchemy as sa
from alembic import op


def rewrite(name: str, column: str, renamed: Callable[[Any], Any]) -> None:
    """Rename words in the JSON of one column; rows without old words are left unchanged. name: the
    table. renamed: returns a value with the new words."""
    connection = op.get_bind()
    key = sa.inspect(connection).get_pk_constraint(name)["constrained_columns"]
    table = sa.table(name, *map(sa.column, key), sa.column(column, sa.JSON()))
    for row in connection.execute(sa.select(table)).all():
        kept, present = row[-1], renamed(row[-1])
        if present != kept:
            which = [table.c[part] == value for part, value in zip(key, row, strict=False)]
            connection.execute(sa.update(table).where(*which).values({column: present}))


def rename_keys(name: str, column: str, names: Mapping[str, str]) -> None:
    """Rename keys of objects at any depth, as `rewrite`."""

    def renamed(value: Any) -> Any:
        if isinstance(value, dict):
            return {names.get(key, key): renamed(inner) for key, inner in value.items()}
        return [renamed(inner) for inner in value] if isinstance(value, list) else value

    rewrite(name, column, renamed)
