"""How large pools and quotas were, minute by minute, and what was lent of them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Of earlier minutes nothing is known."""
    op.create_table(
        "quota_minutes",
        sa.Column("minute_ms", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("pool", sa.Text, primary_key=True),
        sa.Column("team", sa.Text, primary_key=True),
        sa.Column("size", sa.BigInteger, nullable=False),
        sa.Column("lent", sa.BigInteger, nullable=False),
    )


def downgrade() -> None:
    """They are gone."""
    op.drop_table("quota_minutes")
