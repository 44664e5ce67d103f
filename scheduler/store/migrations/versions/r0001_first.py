"""The first tables."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

_SERIAL = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    """Create everything."""
    _create_writing()
    _create_state()
    _create_history()


def _create_writing() -> None:
    op.create_table(
        "leader",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("epoch", sa.BigInteger, nullable=False),
        sa.Column("holder", sa.Text, nullable=False),
        sa.Column("last_event", sa.BigInteger, nullable=False),
        sa.Column("now_ms", sa.BigInteger, nullable=False),
    )
    op.execute("INSERT INTO leader (id, epoch, holder, last_event, now_ms) VALUES (1, 0, '', 0, 0)")
    op.create_table(
        "intents",
        sa.Column("arrival", _SERIAL, primary_key=True, autoincrement=True),
        sa.Column("intent_id", sa.Text, nullable=False, unique=True),
        sa.Column("by", sa.Text, nullable=False),
        sa.Column("idempotency_key", sa.Text),
        sa.Column("at_ms", sa.BigInteger, nullable=False),
        sa.Column("workload_id", sa.Text),
        sa.Column("document", sa.Text, nullable=False),
        sa.Column("verdict", sa.Text),
        sa.UniqueConstraint("by", "idempotency_key", name="one_answer_per_key"),
    )
    pending = sa.text("verdict IS NULL")
    op.create_index(
        "intents_pending", "intents", ["arrival"], sqlite_where=pending, postgresql_where=pending
    )
    op.create_index("intents_of_workload", "intents", ["workload_id"])


def _create_state() -> None:
    op.create_table(
        "workloads",
        sa.Column("workload_id", sa.Text, primary_key=True),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("live", sa.Boolean, nullable=False),
        sa.Column("team", sa.Text, nullable=False),
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("submitted_ms", sa.BigInteger, nullable=False),
        sa.Column("ended_ms", sa.BigInteger),
        sa.Column("spec", sa.Text, nullable=False),
        sa.Column("standing", sa.Text, nullable=False),
    )
    op.create_index("workloads_by_age", "workloads", ["submitted_ms", "workload_id"])
    op.create_index("workloads_live", "workloads", ["live", "kind"])
    op.create_index("workloads_of_team", "workloads", ["team", "submitted_ms"])
    op.create_index("workloads_of_owner", "workloads", ["owner", "submitted_ms"])
    op.create_index("workloads_by_name", "workloads", ["name", "team"])
    op.create_index("workloads_ended", "workloads", ["ended_ms"])
    op.create_table(
        "documents",
        sa.Column("kind", sa.Text, primary_key=True),
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("document", sa.Text, nullable=False),
    )
    op.create_table(
        "names",
        sa.Column("team", sa.Text, primary_key=True),
        sa.Column("base", sa.Text, primary_key=True),
        sa.Column("last", sa.BigInteger, nullable=False),
    )


def _create_history() -> None:
    op.create_table(
        "events",
        sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("at_ms", sa.BigInteger, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("workload_id", sa.Text),
        sa.Column("document", sa.Text, nullable=False),
    )
    op.create_index("events_of_workload", "events", ["workload_id", "number"])
    op.create_index("events_of_kind", "events", ["kind", "number"])
    op.create_index("events_by_time", "events", ["at_ms"])
    op.create_table(
        "ledger",
        sa.Column("workload_id", sa.Text, primary_key=True),
        sa.Column("minute_ms", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("team", sa.Text, nullable=False),
        sa.Column("pool", sa.Text, nullable=False),
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("hold_class", sa.Text, nullable=False),
        sa.Column("held_milli_gpu_ms", sa.BigInteger, nullable=False),
        sa.Column("lost_milli_gpu_ms", sa.BigInteger, nullable=False),
        sa.Column("idle", sa.Boolean, nullable=False),
        sa.Column("compute_percent_mean", sa.Integer),
        sa.Column("memory_used_mib_max", sa.BigInteger),
    )
    op.create_index("ledger_by_minute", "ledger", ["minute_ms", "team"])
    op.create_table(
        "points",
        sa.Column("workload_id", sa.Text, primary_key=True),
        sa.Column("attempt_number", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("step", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("at_ms", sa.BigInteger, nullable=False),
        sa.Column("metrics", sa.Text, nullable=False),
    )


def downgrade() -> None:
    """Refuse: the tables hold everything there is."""
    message = "There is nothing before the first tables."
    raise NotImplementedError(message)
