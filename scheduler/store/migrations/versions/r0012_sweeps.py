"""Sweeps and their trials."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """There were none."""
    op.create_table(
        "sweeps",
        sa.Column("sweep_id", sa.Text, primary_key=True),
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("made_ms", sa.BigInteger, nullable=False),
        sa.Column("live", sa.Boolean, nullable=False),
        sa.Column("document", sa.Text, nullable=False),
        sa.Column("standing", sa.Text, nullable=False),
    )
    op.create_index("sweeps_live", "sweeps", ["live", "made_ms"])
    op.create_table(
        "trials",
        sa.Column("sweep_id", sa.Text, primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("document", sa.Text, nullable=False),
    )


def downgrade() -> None:
    """They are gone; their jobs stay."""
    op.drop_table("trials")
    op.drop_table("sweeps")
