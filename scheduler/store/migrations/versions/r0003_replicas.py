"""Which commit wrote what, so that replicas read only what is new to them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Count commits."""
    op.add_column("leader", sa.Column("commits", sa.BigInteger, nullable=False, server_default="0"))
    for table in ("workloads", "documents"):
        op.add_column(
            table, sa.Column("written", sa.BigInteger, nullable=False, server_default="0")
        )
        op.create_index(f"{table}_written", table, ["written"])


def downgrade() -> None:
    """Count them no more."""
    for table in ("workloads", "documents"):
        op.drop_index(f"{table}_written", table)
        op.drop_column(table, "written")
    op.drop_column("leader", "commits")
