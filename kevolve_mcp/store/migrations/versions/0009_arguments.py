"""Rename the last stage of an evaluation and the arguments of finish jobs."""

from alembic import op

from kevolve_mcp.store.migrations.json_columns import rename_keys

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

NAMES = {"inline": "include_files"}


def upgrade() -> None:
    op.execute("alter table evaluations rename column until to through")
    rename_keys("jobs", "payload", NAMES)
