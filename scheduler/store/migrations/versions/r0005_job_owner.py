"""Whose job is asked for, and at what length: both are counted while nobody else can add to it."""

from __future__ import annotations

import json

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

_INTENTS = sa.table(
    "intents",
    sa.column("arrival", sa.BigInteger),
    sa.column("workload_id", sa.Text),
    sa.column("verdict", sa.Text),
    sa.column("job_owner", sa.Text),
    sa.column("document", sa.Text),
)


def upgrade() -> None:
    """Write it beside submits that no cycle has seen: only they are counted."""
    op.add_column("intents", sa.Column("job_owner", sa.Text))
    op.add_column("intents", sa.Column("job_bytes", sa.Integer))
    op.create_index("intents_of_job_owner", "intents", ["job_owner", "at_ms"])
    op.create_index("workloads_live_of_owner", "workloads", ["owner", "live"])
    connection = op.get_bind()
    unseen = sa.select(_INTENTS.c.arrival, _INTENTS.c.document).where(
        _INTENTS.c.workload_id.is_not(None), _INTENTS.c.verdict.is_(None)
    )
    for arrival, document in connection.execute(unseen).all():
        spec = json.loads(document)["d"]["action"]["spec"]
        if spec["kind"] != "notebook":
            mine = sa.update(_INTENTS).where(_INTENTS.c.arrival == arrival)
            connection.execute(mine.values(job_owner=spec["owner"]))


def downgrade() -> None:
    """Leave it to the documents."""
    op.drop_index("workloads_live_of_owner", "workloads")
    op.drop_index("intents_of_job_owner", "intents")
    op.drop_column("intents", "job_bytes")
    op.drop_column("intents", "job_owner")
