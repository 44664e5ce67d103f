"""Jobs that belong together."""

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
        "pipelines",
        sa.Column("pipeline_id", sa.Text, primary_key=True),
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("team", sa.Text, nullable=False),
        sa.Column("document", sa.Text, nullable=False),
        sa.Column("standing", sa.Text, nullable=False),
        sa.Column("next_ms", sa.BigInteger),
        sa.UniqueConstraint("owner", "name", name="one_pipeline_per_name"),
    )
    op.create_index("pipelines_by_next", "pipelines", ["next_ms"])


def downgrade() -> None:
    """They are gone."""
    op.drop_table("pipelines")
