"""Old answers are found by their age, so that dropping them reads nothing else."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Only what was answered is ever dropped."""
    answered = sa.text("verdict IS NOT NULL")
    op.create_index(
        "intents_answered",
        "intents",
        ["at_ms"],
        sqlite_where=answered,
        postgresql_where=answered,
    )


def downgrade() -> None:
    """Look at all of them."""
    op.drop_index("intents_answered", "intents")
