"""The ledger says what parked notebooks would have held; their attempts say that they were parked."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """A notebook that is parked meanwhile counts from the next time on: its attempt does not say so yet."""
    op.add_column(
        "ledger",
        sa.Column("parked_milli_gpu_ms", sa.BigInteger, nullable=False, server_default="0"),
    )


def downgrade() -> None:
    """Nothing else was made of it."""
    op.drop_column("ledger", "parked_milli_gpu_ms")
