"""Rename figures."""

from alembic import op

from kevolve_mcp.store.migrations.json_columns import rename_keys

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
        rename_keys(table, column, NAMES)
    rename_keys("jobs", "payload", NAMES)
