"""Users choose what they are told by mail and webhook."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Nobody has chosen anything yet."""
    op.create_table(
        "notification_choices",
        sa.Column("owner", sa.Text, primary_key=True),
        sa.Column("document", sa.Text, nullable=False),
    )
    op.create_table(
        "notifications",
        sa.Column("notification_id", sa.Text, primary_key=True),
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("channel", sa.Text, nullable=False),
        sa.Column("fate", sa.Text, nullable=False),
        sa.Column("made_ms", sa.BigInteger, nullable=False),
        sa.Column("next_ms", sa.BigInteger),
        sa.Column("document", sa.Text, nullable=False),
    )
    op.create_index("notifications_by_next", "notifications", ["next_ms"])
    op.create_index("notifications_by_owner", "notifications", ["owner", "made_ms"])
    op.create_table(
        "notification_reading",
        sa.Column("reader", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("document", sa.Text, nullable=False),
    )


def downgrade() -> None:
    """Messages that wait are not sent."""
    for name in ("notification_reading", "notifications", "notification_choices"):
        op.drop_table(name)
