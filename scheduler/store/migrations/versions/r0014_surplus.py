"""What elastic jobs hold beyond their guarantee is told apart in the ledger."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Of minutes that are written it is not known: they count as they did."""
    op.add_column(
        "ledger",
        sa.Column("surplus_milli_gpu_ms", sa.BigInteger, nullable=False, server_default="0"),
    )


def downgrade() -> None:
    """It counts as guaranteed again."""
    op.drop_column("ledger", "surplus_milli_gpu_ms")
