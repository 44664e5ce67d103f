"""Rows that take the place of those with the same primary key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from sqlalchemy import Connection, Table

from gpucommons.scheduler.store.sql.intents import Insert, insert_of


def put_rows(connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
    """Add them, or replace those that are there; all have the same columns."""
    if rows:
        connection.execute(_statement(connection.dialect.name, table, tuple(rows[0])), rows)


@cache
def _statement(dialect: str, table: Table, columns: tuple[str, ...]) -> Insert:
    """Made once: to build it costs more than to carry it out."""
    new, key = insert_of(dialect)(table), table.primary_key.columns
    replaced = {name: new.excluded[name] for name in columns if name not in key}
    return new.on_conflict_do_update(index_elements=list(key), set_=replaced)
