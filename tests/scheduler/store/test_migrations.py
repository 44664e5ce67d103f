"""An upgrade lets replicas of before and after it work on the same tables for a while."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import Connection, inspect, text

from gpucommons.scheduler.errors import BadRequest
from gpucommons.scheduler.store.opening import check_tables, open_store
from gpucommons.scheduler.store.sql.engine import HEAD, connected, upgrade, writing

#: Later migrations only add; 0007 moved curves from one table to another.
FIRST_THAT_ONLY_ADDS = 8


def columns(connection: Connection) -> dict[tuple[str, str], bool]:
    """Each column, and whether a writer that does not know it may leave it out."""
    found = inspect(connection)
    return {
        (table, one["name"]): bool(one["nullable"]) or one["default"] is not None
        for table in found.get_table_names()
        for one in found.get_columns(table)
    }


@pytest.mark.parametrize("number", range(FIRST_THAT_ONLY_ADDS, int(HEAD) + 1))
def test_a_replica_of_before_a_migration_can_go_on_writing_after_it(
    tmp_path: Path, number: int
) -> None:
    engine = connected(f"sqlite:///{tmp_path / 'scheduler.db'}")
    with writing(engine) as connection:
        upgrade(connection, f"{number - 1:04}")
    with engine.connect() as connection:
        before = columns(connection)
    with writing(engine) as connection:
        upgrade(connection, f"{number:04}")
    with engine.connect() as connection:
        after = columns(connection)
    engine.dispose()
    assert before.keys() <= after.keys()
    tables = {table for table, _ in before}
    needed = {
        (table, name)
        for (table, name), may_lack in after.items()
        if table in tables and (table, name) not in before and not may_lack
    }
    assert needed == set()


def test_tables_of_a_newer_version_are_left_alone_with_a_sentence(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'scheduler.db'}"
    open_store(url).close()
    check_tables(url)
    engine = connected(url)
    with writing(engine) as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    for use in (open_store, check_tables):
        with pytest.raises(BadRequest, match="start that version again, or restore a backup"):
            use(url)
    with engine.connect() as connection:
        assert (
            connection.execute(text("SELECT version_num FROM alembic_version")).scalar() == "9999"
        )
    engine.dispose()
