"""Rename the statuses of evaluations."""

from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

NAMES = {"cheated": "reward_hack", "flagged": "needs_review", "rejected": "invalid"}


def upgrade() -> None:
    for table in ("evaluations", "skill_outcomes"):
        for old, new in NAMES.items():
            op.execute(f"update {table} set status = '{new}' where status = '{old}'")
