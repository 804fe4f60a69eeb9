"""Figures have other names."""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

NAMES = {
    "hot_us": "warm_us",
    "baseline_hot_us": "baseline_warm_us",
    "call_us": "end_to_end_us",
    "baseline_call_us": "baseline_end_to_end_us",
    "host_us": "launch_us",
    "roofline": "roofline_fraction",
    "roofline_us": "roofline_time_us",
    "kernel_share": "own_kernel_fraction",
    "device_s": "device_seconds",
}


def upgrade() -> None:
    op.execute("alter table baselines rename column roofline_us to roofline_time_us")
    op.execute("alter table evaluations rename column device_s to device_seconds")
    for table, column in (
        ("case_results", "data"),
        ("tasks", "facts"),
        ("sessions", "budget"),
        ("sessions", "options"),
    ):
        _rewrite(table, column)
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
