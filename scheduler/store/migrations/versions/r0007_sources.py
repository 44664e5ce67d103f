"""A job's curve may come from several sources; points of one never replace those of another."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

_OLD = "workload_id, attempt_number, step, at_ms, metrics"


def upgrade() -> None:
    """All there were are reports of scripts."""
    op.create_table(
        "curve_points",
        sa.Column("workload_id", sa.Text, primary_key=True),
        sa.Column("source", sa.Text, primary_key=True),
        sa.Column("attempt_number", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("step", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("at_ms", sa.BigInteger, nullable=False),
        sa.Column("metrics", sa.Text, nullable=False),
        sa.Column("unit", sa.Text, nullable=False, server_default=""),
    )
    op.execute(
        f"INSERT INTO curve_points ({_OLD}, source, unit) SELECT {_OLD}, 'report', '' FROM points"  # noqa: S608 - fixed names
    )
    op.drop_table("points")


def downgrade() -> None:
    """What an earlier release can show: the reports."""
    op.create_table(
        "points",
        sa.Column("workload_id", sa.Text, primary_key=True),
        sa.Column("attempt_number", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("step", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("at_ms", sa.BigInteger, nullable=False),
        sa.Column("metrics", sa.Text, nullable=False),
    )
    op.execute(
        f"INSERT INTO points ({_OLD}) SELECT {_OLD} FROM curve_points WHERE source = 'report'"  # noqa: S608 - fixed names
    )
    op.drop_table("curve_points")
