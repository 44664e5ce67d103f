"""Surplus of elastic jobs is told apart in the ledger; sweeps have team, name and end beside their documents."""

from __future__ import annotations

import json

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None

_SWEEPS = sa.table(
    "sweeps",
    sa.column("sweep_id", sa.Text),
    sa.column("team", sa.Text),
    sa.column("name", sa.Text),
    sa.column("ended_ms", sa.BigInteger),
    sa.column("document", sa.Text),
    sa.column("standing", sa.Text),
)


def upgrade() -> None:
    """Of minutes that are written the surplus is not known: they count as they did."""
    op.add_column(
        "ledger",
        sa.Column("surplus_milli_gpu_ms", sa.BigInteger, nullable=False, server_default="0"),
    )
    _tell_sweeps_apart()


def _tell_sweeps_apart() -> None:
    """Write what their documents say: they are listed by page, and leave in time."""
    op.add_column("sweeps", sa.Column("team", sa.Text, nullable=False, server_default=""))
    op.add_column("sweeps", sa.Column("name", sa.Text, nullable=False, server_default=""))
    op.add_column("sweeps", sa.Column("ended_ms", sa.BigInteger))
    op.create_index("sweeps_by_name", "sweeps", ["name"])
    connection = op.get_bind()
    known = sa.select(_SWEEPS.c.sweep_id, _SWEEPS.c.document, _SWEEPS.c.standing)
    for sweep_id, document, standing in connection.execute(known).all():
        sweep, stands = json.loads(document)["d"], json.loads(standing)["d"]
        mine = sa.update(_SWEEPS).where(_SWEEPS.c.sweep_id == sweep_id)
        values = {"team": sweep["team"], "name": sweep["name"], "ended_ms": stands.get("ended_ms")}
        connection.execute(mine.values(values))


def downgrade() -> None:
    """The surplus counts as guaranteed again; sweeps are left to their documents."""
    op.drop_column("ledger", "surplus_milli_gpu_ms")
    op.drop_index("sweeps_by_name", "sweeps")
    for column in ("ended_ms", "name", "team"):
        op.drop_column("sweeps", column)
