"""Learned skills: what they match, the origin of their evidence, and how often they were shown,
used and useful."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("update skills set state = 'retired' where state = 'rejected'")
    # on SQLite the table is rewritten without its CHECK
    with op.batch_alter_table("skills") as skills:
        if op.get_bind().dialect.name != "sqlite":
            skills.drop_constraint(op.f("ck_skills_state"), type_="check")
        skills.alter_column(
            "pattern", new_column_name="code", existing_type=sa.Text(), existing_nullable=False
        )
        skills.add_column(
            sa.Column("counter_indications", sa.Text(), nullable=False, server_default="")
        )
        skills.add_column(sa.Column("matches", sa.JSON(), nullable=False, server_default="{}"))
        skills.create_check_constraint(
            op.f("ck_skills_state"), "state in ('proposed', 'accepted', 'contradicted', 'retired')"
        )
    op.add_column("skill_evidence", sa.Column("predicted", sa.Float(precision=53), nullable=True))
    op.add_column(
        "skill_evidence", sa.Column("origin", sa.Text(), nullable=False, server_default="")
    )
    op.create_table(
        "skill_shown",
        sa.Column("skill", sa.String(length=120), nullable=False),
        sa.Column("session", sa.String(length=80), nullable=False),
        sa.Column("ask", sa.Integer(), autoincrement=False, nullable=False),
        sa.ForeignKeyConstraint(
            ["session", "ask"],
            ["asks.session", "asks.seq"],
            name=op.f("fk_skill_shown_session_ask"),
        ),
        sa.PrimaryKeyConstraint("skill", "session", "ask", name=op.f("pk_skill_shown")),
    )
    op.create_index(op.f("ix_skill_shown_session"), "skill_shown", ["session"], unique=False)
    op.create_table(
        "skill_uses",
        sa.Column("skill", sa.String(length=120), nullable=False),
        sa.Column("session", sa.String(length=80), nullable=False),
        sa.Column("node", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("how", sa.String(length=20), nullable=False),
        sa.ForeignKeyConstraint(
            ["session", "node"],
            ["nodes.session", "nodes.seq"],
            name=op.f("fk_skill_uses_session_node"),
        ),
        sa.PrimaryKeyConstraint("skill", "session", "node", name=op.f("pk_skill_uses")),
    )
    op.create_index(op.f("ix_skill_uses_session"), "skill_uses", ["session"], unique=False)
    op.create_table(
        "skill_outcomes",
        sa.Column("skill", sa.String(length=120), nullable=False),
        sa.Column("session", sa.String(length=80), nullable=False),
        sa.Column("node", sa.Integer(), nullable=False),
        sa.Column("status", sa.String(length=20), nullable=False),
        sa.Column("effect", sa.Float(precision=53), nullable=True),
        sa.Column("low", sa.Float(precision=53), nullable=True),
        sa.Column("high", sa.Float(precision=53), nullable=True),
        sa.Column("created", sa.Float(precision=53), nullable=False),
        sa.ForeignKeyConstraint(
            ["session", "node"],
            ["nodes.session", "nodes.seq"],
            name=op.f("fk_skill_outcomes_session_node"),
        ),
        sa.PrimaryKeyConstraint("skill", "session", name=op.f("pk_skill_outcomes")),
    )
