"""When an ask was taken, to distinguish its author's work from a pause."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("asks", sa.Column("taken", sa.Float(precision=53), nullable=True))
