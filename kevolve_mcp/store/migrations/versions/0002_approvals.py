"""Approvals: who approved a node, and when."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "approvals",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("session", sa.String(length=80), nullable=False),
        sa.Column("node", sa.Integer(), nullable=False),
        sa.Column("author", sa.Text(), nullable=False),
        sa.Column("note", sa.Text(), nullable=False),
        sa.Column("created", sa.Float(precision=53), nullable=False),
        sa.ForeignKeyConstraint(
            ["session", "node"],
            ["nodes.session", "nodes.seq"],
            name=op.f("fk_approvals_session_node"),
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_approvals")),
    )
    op.create_index(op.f("ix_approvals_session"), "approvals", ["session"], unique=False)


def downgrade() -> None:
    op.drop_index(op.f("ix_approvals_session"), table_name="approvals")
    op.drop_table("approvals")
