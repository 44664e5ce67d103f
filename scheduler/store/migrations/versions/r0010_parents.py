"""Jobs that are part of a sweep, a map, a schedule or a pipeline."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """None was part of anything."""
    op.add_column("intents", sa.Column("part_of", sa.Text))
    op.add_column("workloads", sa.Column("part_of", sa.Text))
    op.create_index("workloads_of_parent", "workloads", ["part_of", "submitted_ms"])


def downgrade() -> None:
    """Each is a job of its own again."""
    op.drop_index("workloads_of_parent", "workloads")
    op.drop_column("workloads", "part_of")
    op.drop_column("intents", "part_of")
