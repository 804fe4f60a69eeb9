"""What migrations share that give the words in a column of JSON other names. It must go on doing
what it did when they were written."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import sqlalchemy as sa
from alembic import op


def rewrite(name: str, column: str, renamed: Callable[[Any], Any]) -> None:
    """Give the JSON of one column its present words; rows that hold no old one stay as they are.
    name: of the table. renamed: a value with its present words."""
    connection = op.get_bind()
    key = sa.inspect(connection).get_pk_constraint(name)["constrained_columns"]
    table = sa.table(name, *map(sa.column, key), sa.column(column, sa.JSON()))
    for row in connection.execute(sa.select(table)).all():
        kept, present = row[-1], renamed(row[-1])
        if present != kept:
            which = [table.c[part] == value for part, value in zip(key, row, strict=False)]
            connection.execute(sa.update(table).where(*which).values({column: present}))


def rename_keys(name: str, column: str, names: Mapping[str, str]) -> None:
    """As `rewrite`, where keys of objects have other names, however deep they stand."""

    def renamed(value: Any) -> Any:
        if isinstance(value, dict):
            return {names.get(key, key): renamed(inner) for key, inner in value.items()}
        return [renamed(inner) for inner in value] if isinstance(value, list) else value

    rewrite(name, column, renamed)
