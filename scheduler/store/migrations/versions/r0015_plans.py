"""Plans that were offered, and what became of jobs that took one."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """There were none."""
    op.create_table(
        "offered_plans",
        sa.Column("plan_id", sa.Text, primary_key=True),
        sa.Column("made_ms", sa.BigInteger, nullable=False),
        sa.Column("document", sa.Text, nullable=False),
    )
    op.create_index("offered_plans_by_age", "offered_plans", ["made_ms"])
    op.create_table(
        "judged_runs",
        sa.Column("workload_id", sa.Text, primary_key=True),
        sa.Column("ended_ms", sa.BigInteger, nullable=False),
        sa.Column("document", sa.Text, nullable=False),
    )
    op.create_index("judged_runs_by_end", "judged_runs", ["ended_ms"])


def downgrade() -> None:
    """They are gone; jobs keep the plan that they took in their spec."""
    op.drop_table("judged_runs")
    op.drop_table("offered_plans")
