"""The ledger says for which project a workload held what it held."""

from __future__ import annotations

import json

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None

_LEDGER = sa.table("ledger", sa.column("workload_id", sa.Text), sa.column("project", sa.Text))
_WORKLOADS = sa.table("workloads", sa.column("workload_id", sa.Text), sa.column("spec", sa.Text))


def upgrade() -> None:
    """Of jobs that are known still, the minutes that are written get theirs."""
    op.add_column("ledger", sa.Column("project", sa.Text, nullable=False, server_default=""))
    connection = op.get_bind()
    labelled = sa.select(_WORKLOADS.c.workload_id, _WORKLOADS.c.spec).where(
        _WORKLOADS.c.spec.contains('"project"')
    )
    for workload_id, spec in connection.execute(labelled).all():
        label = json.loads(spec)["d"].get("labels", {}).get("project", "")
        # As the ledger writes it from now on.
        project = " ".join(label.split())[:100]
        if project:
            mine = sa.update(_LEDGER).where(_LEDGER.c.workload_id == workload_id)
            connection.execute(mine.values(project=project))


def downgrade() -> None:
    """Jobs keep their labels."""
    op.drop_column("ledger", "project")
