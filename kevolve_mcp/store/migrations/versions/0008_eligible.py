"""Rename the flag of evaluations that may win to eligible."""

from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("alter table evaluations rename column promotable to eligible")
