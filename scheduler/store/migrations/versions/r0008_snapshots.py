"""Whose snapshots are: who uploaded which, and which one a job runs from, beside its spec."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

#: Workloads that are read and written at a time.
_BATCH = 5_000

_WORKLOADS = sa.table(
    "workloads",
    sa.column("workload_id", sa.Text),
    sa.column("spec", sa.Text),
    sa.column("snapshot", sa.Text),
)


def upgrade() -> None:
    """Who uploaded what was not noted: owners of the jobs that ran from it are known."""
    op.create_table(
        "uploads",
        sa.Column("sha256", sa.Text, primary_key=True),
        sa.Column("by", sa.Text, primary_key=True),
        sa.Column("at_ms", sa.BigInteger, nullable=False),
    )
    op.create_index("uploads_by_age", "uploads", ["at_ms"])
    op.add_column("workloads", sa.Column("snapshot", sa.Text))
    connection = op.get_bind()
    written = (
        sa.update(_WORKLOADS)
        .where(_WORKLOADS.c.workload_id == sa.bindparam("of"))
        .values(snapshot=sa.bindparam("ran_from"))
    )
    for rows in _batches(connection):
        found = [(row.workload_id, json.loads(row.spec)["d"].get("snapshot")) for row in rows]
        named = [{"of": name, "ran_from": sha256} for name, sha256 in found if sha256 is not None]
        if named:
            connection.execute(written, named)
    op.create_index("workloads_of_owner_from", "workloads", ["owner", "snapshot"])
    op.create_index("workloads_of_team_from", "workloads", ["team", "snapshot"])


def downgrade() -> None:
    """As before: whoever knows a hash may use it."""
    op.drop_index("workloads_of_team_from", "workloads")
    op.drop_index("workloads_of_owner_from", "workloads")
    op.drop_column("workloads", "snapshot")
    op.drop_table("uploads")


def _batches(connection: sa.Connection) -> Iterator[Sequence[Any]]:
    last = ""
    while True:
        rows = connection.execute(
            sa.select(_WORKLOADS.c.workload_id, _WORKLOADS.c.spec)
            .where(_WORKLOADS.c.workload_id > last)
            .order_by(_WORKLOADS.c.workload_id)
            .limit(_BATCH)
        ).all()
        if not rows:
            return
        yield rows
        last = rows[-1].workload_id
