"""What an ask held in full, so that later asks refer to it; not known of older ones."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("asks", sa.Column("held", sa.JSON(), nullable=False, server_default="[]"))
