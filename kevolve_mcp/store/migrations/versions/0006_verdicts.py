"""Rename the verdicts of comparisons."""

from typing import Any

from alembic import op

from kevolve_mcp.store.migrations.json_columns import rewrite

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

NAMES = {"same": "equivalent", "unclear": "inconclusive"}


def upgrade() -> None:
    for old, new in NAMES.items():
        op.execute(f"update case_results set verdict = '{new}' where verdict = '{old}'")
    rewrite("case_results", "data", _renamed)


def _renamed(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: NAMES.get(v, v) if k == "verdict" else _renamed(v) for k, v in value.items()}
    return [_renamed(v) for v in value] if isinstance(value, list) else value
