"""Who may see an event, beside its document: nobody has to look for that in its text."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

#: Events that are read and written at a time.
_BATCH = 5_000

_EVENTS = sa.table(
    "events",
    sa.column("number", sa.BigInteger),
    sa.column("audience", sa.Text),
    sa.column("document", sa.Text),
)


def upgrade() -> None:
    """Write it beside all that there are."""
    op.add_column("events", sa.Column("audience", sa.Text, nullable=False, server_default=""))
    connection = op.get_bind()
    written = (
        sa.update(_EVENTS)
        .where(_EVENTS.c.number == sa.bindparam("of"))
        .values(audience=sa.bindparam("seen_by"))
    )
    for rows in _batches(connection):
        seen_by = [{"of": row.number, "seen_by": _audience(row.document)} for row in rows]
        connection.execute(written, seen_by)
    op.create_index("events_of_audience", "events", ["audience", "number"])


def downgrade() -> None:
    """Leave it to the documents."""
    op.drop_index("events_of_audience", "events")
    op.drop_column("events", "audience")


def _batches(connection: sa.Connection) -> Iterator[Sequence[Any]]:
    last = 0
    while True:
        rows = connection.execute(
            sa.select(_EVENTS.c.number, _EVENTS.c.document)
            .where(_EVENTS.c.number > last)
            .order_by(_EVENTS.c.number)
            .limit(_BATCH)
        ).all()
        if not rows:
            return
        yield rows
        last = rows[-1].number


def _audience(document: str) -> str:
    """As the rule was when this was written."""
    event = json.loads(document)["d"]
    return f"user:{event['by']}" if event.get("team") is None else f"team:{event['team']}"
