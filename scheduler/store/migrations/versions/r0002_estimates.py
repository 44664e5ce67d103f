"""Windows that were forecast, and what became of them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create their table."""
    op.create_table(
        "estimates",
        sa.Column("workload_id", sa.Text, primary_key=True),
        sa.Column("made_ms", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("wait_class", sa.Text, nullable=False),
        sa.Column("document", sa.Text, nullable=False),
    )
    op.create_index("estimates_by_time", "estimates", ["made_ms"])


def downgrade() -> None:
    """Forget them: calibration starts anew."""
    op.drop_table("estimates")
