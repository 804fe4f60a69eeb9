"""The full contents of an ask, for later asks to refer to; unknown for older asks."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("asks", sa.Column("held", sa.JSON(), nullable=False, server_default="[]"))
