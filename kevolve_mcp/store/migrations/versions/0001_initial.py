"""The first schema."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "candidates",
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("language", sa.String(length=40), nullable=False),
        sa.Column("source", sa.String(length=64), nullable=False),
        sa.Column("created", sa.Float(precision=53), nullable=False),
        sa.PrimaryKeyConstraint("digest", name=op.f("pk_candidates")),
    )
    op.create_table(
        "environments",
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("device", sa.Text(), nullable=False),
        sa.Column("toolchain", sa.Text(), nullable=False),
        sa.Column("data", sa.JSON(), nullable=False),
        sa.Column("created", sa.Float(precision=53), nullable=False),
        sa.PrimaryKeyConstraint("digest", name=op.f("pk_environments")),
    )
    op.create_table(
        "skills",
        sa.Column("id", sa.String(length=80), nullable=False),
        sa.Column("title", sa.Text(), nullable=False),
        sa.Column("mechanism", sa.Text(), nullable=False),
        sa.Column("preconditions", sa.Text(), nullable=False),
        sa.Column("pattern", sa.Text(), nullable=False),
        sa.Column("target", sa.String(length=80), nullable=False),
        sa.Column("language", sa.String(length=40), nullable=False),
        sa.Column("signals", sa.JSON(), nullable=False),
        sa.Column("files", sa.JSON(), nullable=False),
        sa.Column("state", sa.String(length=20), nullable=False),
        sa.Column("created", sa.Float(precision=53), nullable=False),
        sa.CheckConstraint(
            "state in ('proposed', 'accepted', 'rejected', 'retired')", name=op.f("ck_skills_state")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_skills")),
    )
    op.create_index(op.f("ix_skills_state"), "skills", ["state"], unique=False)
    op.create_table(
        "tasks",
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("source", sa.String(length=64), nullable=False),
        sa.Column("operators", sa.JSON(), nullable=False),
        sa.Column("facts", sa.JSON(), nullable=False),
        sa.Column("created", sa.Float(precision=53), nullable=False),
        sa.PrimaryKeyConstraint("digest", name=op.f("pk_tasks")),
    )
    op.create_table(
        "baselines",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("task", sa.String(length=64), nullable=False),
        sa.Column("environment", sa.String(length=64), nullable=True),
        sa.Column("case_name", sa.Text(), nullable=False),
        sa.Column("microseconds", sa.JSON(), nullable=False),
        sa.Column("roofline_us", sa.Float(precision=53), nullable=False),
        sa.Column("created", sa.Float(precision=53), nullable=False),
        sa.ForeignKeyConstraint(
            ["environment"], ["environments.digest"], name=op.f("fk_baselines_environment")
        ),
        sa.ForeignKeyConstraint(["task"], ["tasks.digest"], name=op.f("fk_baselines_task")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_baselines")),
    )
    op.create_index(op.f("ix_baselines_task_id"), "baselines", ["task", "id"], unique=False)
    op.create_table(
        "sessions",
        sa.Column("id", sa.String(length=80), nullable=False),
        sa.Column("task", sa.String(length=64), nullable=False),
        sa.Column("target", sa.String(length=80), nullable=False),
        sa.Column("language", sa.String(length=40), nullable=False),
        sa.Column("goal", sa.JSON(), nullable=False),
        sa.Column("budget", sa.JSON(), nullable=False),
        sa.Column("policy", sa.JSON(), nullable=False),
        sa.Column("selection", sa.String(length=80), nullable=False),
        sa.Column("seed", sa.String(length=40), nullable=False),
        sa.Column("python", sa.Text(), nullable=False),
        sa.Column("options", sa.JSON(), nullable=False),
        sa.Column("state", sa.String(length=20), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("outcome", sa.JSON(), nullable=False),
        sa.Column("created", sa.Float(precision=53), nullable=False),
        sa.Column("finished", sa.Float(precision=53), nullable=True),
        sa.CheckConstraint(
            "state in ('open', 'finished', 'abandoned')", name=op.f("ck_sessions_state")
        ),
        sa.ForeignKeyConstraint(["task"], ["tasks.digest"], name=op.f("fk_sessions_task")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_sessions")),
    )
    op.create_index(op.f("ix_sessions_state_task"), "sessions", ["state", "task"], unique=False)
    op.create_table(
        "skill_events",
        sa.Column("skill", sa.String(length=80), nullable=False),
        sa.Column("seq", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("kind", sa.String(length=40), nullable=False),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("author", sa.Text(), nullable=False),
        sa.Column("data", sa.JSON(), nullable=False),
        sa.Column("created", sa.Float(precision=53), nullable=False),
        sa.ForeignKeyConstraint(["skill"], ["skills.id"], name=op.f("fk_skill_events_skill")),
        sa.PrimaryKeyConstraint("skill", "seq", name=op.f("pk_skill_events")),
    )
    op.create_table(
        "skill_evidence",
        sa.Column("skill", sa.String(length=80), nullable=False),
        sa.Column("seq", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("session", sa.String(length=80), nullable=False),
        sa.Column("node", sa.String(length=20), nullable=False),
        sa.Column("parent", sa.String(length=20), nullable=True),
        sa.Column("task", sa.String(length=64), nullable=False),
        sa.Column("device", sa.Text(), nullable=False),
        sa.Column("effect", sa.Float(precision=53), nullable=False),
        sa.Column("low", sa.Float(precision=53), nullable=True),
        sa.Column("high", sa.Float(precision=53), nullable=True),
        sa.Column("evaluation", sa.String(length=20), nullable=False),
        sa.Column("parent_evaluation", sa.String(length=20), nullable=False),
        sa.Column("note", sa.Text(), nullable=False),
        sa.Column("created", sa.Float(precision=53), nullable=False),
        sa.ForeignKeyConstraint(["skill"], ["skills.id"], name=op.f("fk_skill_evidence_skill")),
        sa.PrimaryKeyConstraint("skill", "seq", name=op.f("pk_skill_evidence")),
    )
    op.create_table(
        "asks",
        sa.Column("session", sa.String(length=80), nullable=False),
        sa.Column("seq", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("parents", sa.JSON(), nullable=False),
        sa.Column("memory", sa.String(length=20), nullable=False),
        sa.Column("role", sa.String(length=20), nullable=False),
        sa.Column("annotations", sa.JSON(), nullable=False),
        sa.Column("shown", sa.String(length=64), nullable=False),
        sa.Column("author", sa.Text(), nullable=False),
        sa.Column("created", sa.Float(precision=53), nullable=False),
        sa.Column("lease_until", sa.Float(precision=53), nullable=False),
        sa.ForeignKeyConstraint(["session"], ["sessions.id"], name=op.f("fk_asks_session")),
        sa.PrimaryKeyConstraint("session", "seq", name=op.f("pk_asks")),
    )
    op.create_table(
        "evaluations",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("key", sa.String(length=64), nullable=False),
        sa.Column("candidate", sa.String(length=64), nullable=False),
        sa.Column("task", sa.String(length=64), nullable=False),
        sa.Column("session", sa.String(length=80), nullable=True),
        sa.Column("environment", sa.String(length=64), nullable=False),
        sa.Column("device", sa.Text(), nullable=False),
        sa.Column("language", sa.String(length=40), nullable=False),
        sa.Column("target", sa.String(length=80), nullable=False),
        sa.Column("purpose", sa.String(length=20), nullable=False),
        sa.Column("status", sa.String(length=20), nullable=False),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("policy", sa.Text(), nullable=False),
        sa.Column("until", sa.String(length=20), nullable=False),
        sa.Column("protocol", sa.Integer(), nullable=False),
        sa.Column("fitness", sa.Float(precision=53), nullable=True),
        sa.Column("promotable", sa.Boolean(), nullable=False),
        sa.Column("seconds", sa.Float(precision=53), nullable=False),
        sa.Column("device_s", sa.Float(precision=53), nullable=False),
        sa.Column("stages", sa.JSON(), nullable=False),
        sa.Column("created", sa.Float(precision=53), nullable=False),
        sa.ForeignKeyConstraint(
            ["candidate"], ["candidates.digest"], name=op.f("fk_evaluations_candidate")
        ),
        sa.ForeignKeyConstraint(
            ["environment"], ["environments.digest"], name=op.f("fk_evaluations_environment")
        ),
        sa.ForeignKeyConstraint(["session"], ["sessions.id"], name=op.f("fk_evaluations_session")),
        sa.ForeignKeyConstraint(["task"], ["tasks.digest"], name=op.f("fk_evaluations_task")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_evaluations")),
    )
    op.create_index(op.f("ix_evaluations_candidate"), "evaluations", ["candidate"], unique=False)
    op.create_index(op.f("ix_evaluations_key"), "evaluations", ["key"], unique=False)
    op.create_index(op.f("ix_evaluations_session"), "evaluations", ["session"], unique=False)
    op.create_index(
        op.f("ix_evaluations_task_device"), "evaluations", ["task", "device"], unique=False
    )
    op.create_table(
        "jobs",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("kind", sa.String(length=40), nullable=False),
        sa.Column("session", sa.String(length=80), nullable=True),
        sa.Column("payload", sa.JSON(), nullable=False),
        sa.Column("state", sa.String(length=20), nullable=False),
        sa.Column("owner_host", sa.Text(), nullable=False),
        sa.Column("owner_pid", sa.Integer(), nullable=False),
        sa.Column("owner_started", sa.String(length=40), nullable=False),
        sa.Column("heartbeat", sa.Float(precision=53), nullable=False),
        sa.Column("progress", sa.JSON(), nullable=False),
        sa.Column("result", sa.JSON(), nullable=True),
        sa.Column("error", sa.JSON(), nullable=True),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("cancel_requested", sa.Boolean(), nullable=False),
        sa.Column("created", sa.Float(precision=53), nullable=False),
        sa.Column("finished", sa.Float(precision=53), nullable=True),
        sa.CheckConstraint(
            "state in ('running', 'done', 'failed', 'cancelled', 'lost')",
            name=op.f("ck_jobs_state"),
        ),
        sa.ForeignKeyConstraint(["session"], ["sessions.id"], name=op.f("fk_jobs_session")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_jobs")),
    )
    op.create_index(op.f("ix_jobs_session"), "jobs", ["session"], unique=False)
    op.create_index(op.f("ix_jobs_state"), "jobs", ["state"], unique=False)
    op.create_table(
        "case_results",
        sa.Column("evaluation", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("position", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("correct", sa.Boolean(), nullable=False),
        sa.Column("speedup", sa.Float(precision=53), nullable=True),
        sa.Column("latency_us", sa.Float(precision=53), nullable=True),
        sa.Column("verdict", sa.String(length=20), nullable=True),
        sa.Column("data", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(
            ["evaluation"], ["evaluations.id"], name=op.f("fk_case_results_evaluation")
        ),
        sa.PrimaryKeyConstraint("evaluation", "position", name=op.f("pk_case_results")),
    )
    op.create_table(
        "nodes",
        sa.Column("session", sa.String(length=80), nullable=False),
        sa.Column("seq", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("candidate", sa.String(length=64), nullable=False),
        sa.Column("evaluation", sa.Integer(), nullable=False),
        sa.Column("ask", sa.Integer(), nullable=True),
        sa.Column("role", sa.String(length=20), nullable=False),
        sa.Column("origin", sa.Text(), nullable=True),
        sa.Column("hypothesis", sa.Text(), nullable=False),
        sa.Column("predicted_speedup", sa.Float(precision=53), nullable=True),
        sa.Column("rationale", sa.Text(), nullable=False),
        sa.Column("annotations", sa.JSON(), nullable=False),
        sa.Column("params", sa.JSON(), nullable=False),
        sa.Column("structure", sa.String(length=80), nullable=False),
        sa.Column("tokens", sa.Integer(), nullable=False),
        sa.Column("usd", sa.Float(precision=53), nullable=False),
        sa.Column("created", sa.Float(precision=53), nullable=False),
        sa.ForeignKeyConstraint(
            ["candidate"], ["candidates.digest"], name=op.f("fk_nodes_candidate")
        ),
        sa.ForeignKeyConstraint(
            ["evaluation"], ["evaluations.id"], name=op.f("fk_nodes_evaluation")
        ),
        sa.ForeignKeyConstraint(
            ["session", "ask"], ["asks.session", "asks.seq"], name=op.f("fk_nodes_session_ask")
        ),
        sa.ForeignKeyConstraint(["session"], ["sessions.id"], name=op.f("fk_nodes_session")),
        sa.PrimaryKeyConstraint("session", "seq", name=op.f("pk_nodes")),
        sa.UniqueConstraint(
            "session", "ask", "candidate", name=op.f("uq_nodes_session_ask_candidate")
        ),
    )
    op.create_index(op.f("ix_nodes_evaluation"), "nodes", ["evaluation"], unique=False)
    op.create_table(
        "signals",
        sa.Column("evaluation", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("position", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("name", sa.String(length=80), nullable=False),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("evidence", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(
            ["evaluation"], ["evaluations.id"], name=op.f("fk_signals_evaluation")
        ),
        sa.PrimaryKeyConstraint("evaluation", "position", name=op.f("pk_signals")),
    )
    op.create_index(op.f("ix_signals_name"), "signals", ["name"], unique=False)
    op.create_table(
        "node_parents",
        sa.Column("session", sa.String(length=80), nullable=False),
        sa.Column("seq", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("position", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("parent", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(
            ["session", "parent"],
            ["nodes.session", "nodes.seq"],
            name=op.f("fk_node_parents_session_parent"),
        ),
        sa.ForeignKeyConstraint(
            ["session", "seq"],
            ["nodes.session", "nodes.seq"],
            name=op.f("fk_node_parents_session_seq"),
        ),
        sa.PrimaryKeyConstraint("session", "seq", "position", name=op.f("pk_node_parents")),
    )
