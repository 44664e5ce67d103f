"""Alembic's entry: runs the migrations on the connection that :mod:`..engine` hands over."""

from __future__ import annotations

from alembic import context

from gpucommons.scheduler.store.tables import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    # SQLite cannot change a column in place: Alembic copies the table instead.
    render_as_batch=True,
)
with context.begin_transaction():
    context.run_migrations()
