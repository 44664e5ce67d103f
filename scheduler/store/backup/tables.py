"""The tables of a database to a file, at one moment and while a scheduler works; and back.

Rows are read through one transaction that sees one moment: a reader of SQLite's log, or PostgreSQL's
*repeatable read*. Nobody waits for it. Tables are looked at as they are, not as this release makes
them: a backup of an earlier release is restored to that release's tables, and then brought up to date.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import IO

import sqlalchemy as sa
from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import DBAPIError

from gpucommons.scheduler.core.model.state import Changes, Event
from gpucommons.scheduler.core.model.types import Millis
from gpucommons.scheduler.errors import BadRequest, Conflict, Unavailable
from gpucommons.scheduler.models.history import RESTORED
from gpucommons.scheduler.store.backup.file import Origin, Reader, Row, Table, Writer
from gpucommons.scheduler.store.sql import cluster, history
from gpucommons.scheduler.store.sql.engine import (
    HEAD,
    connected,
    revision,
    take_turns,
    upgrade,
    writing,
)
from gpucommons.scheduler.store.tables import leader, metadata

#: Rows written, or read, at once.
_ROWS = 500


def back_up(url: str, file: IO[bytes], origin: Origin) -> int:
    """Write everything that a database holds; returns how many rows that is.

    Raises
    ------
    BadRequest
        When it holds no tables of ours, or those of a later release.
    Unavailable
        When it does not answer.
    """
    with _open(url) as engine, _one_moment(engine) as connection:
        head = revision(connection)
        if head is None:
            raise BadRequest("This database holds no tables of GPU Commons: nothing to back up.")
        if head > HEAD:
            message = (
                f"This database is of a later version (tables {head}, here {HEAD}): back it up with"
                " the gpucommons of that version."
            )
            raise BadRequest(message)
        writer = Writer(file, replace(origin, head=head))
        for table in _there(connection).sorted_tables:
            writer.table(table.name, [column.name for column in table.columns])
            rows = connection.execution_options(yield_per=_ROWS).execute(sa.select(table))
            for row in rows:
                writer.row(row)
        writer.end()
        return writer.rows


def restore(url: str, reader: Reader, *, now_ms: int) -> tuple[Origin, int]:
    """Fill an empty database, in one transaction; returns of what, and with how many rows.

    Raises
    ------
    BadRequest
        When the file cannot be used.
    Conflict
        When the database is not empty.
    Unavailable
        When it does not answer.
    """
    origin, rows = reader.check()
    if not origin.head.isdecimal() or origin.head > HEAD:
        message = (
            f"The backup is of GPU Commons {origin.version} (tables {origin.head}), later than this"
            f" one (tables {HEAD}): restore it with that version or a later one."
        )
        raise BadRequest(message)
    with _open(url) as engine, writing(engine) as connection:
        take_turns(connection)
        if (found := sorted(_there(connection).tables)) or revision(connection) is not None:
            message = (
                f"The database is not empty: it has {len(found)} tables of GPU Commons. A backup is"
                " restored into a new database; this one was not touched."
            )
            raise Conflict(message)
        upgrade(connection, origin.head)
        _fill(connection, reader)
        if origin.head != HEAD:
            upgrade(connection, HEAD)
        _number_on(connection)
        _tell(connection, origin, now_ms)
    return origin, rows


def _fill(connection: Connection, reader: Reader) -> None:
    known = _there(connection)
    for made in known.sorted_tables:
        connection.execute(made.delete())  # first tables begin with the leader's row
    for table, rows in _by_table(reader):
        if not rows:
            continue
        into = known.tables.get(table.name)
        if into is None or not set(table.columns) <= set(into.columns.keys()):
            message = f"The backup has a table that its version did not have: {table.name}."
            raise BadRequest(message)
        if any(len(row) != len(table.columns) for row in rows):
            raise BadRequest(f"The backup has rows of {table.name} that do not fit to it.")
        connection.execute(
            into.insert(), [dict(zip(table.columns, row, strict=True)) for row in rows]
        )


def _by_table(reader: Reader) -> Iterator[tuple[Table, list[Row]]]:
    """Rows of one table, at most so many at once."""
    table, rows = Table(name="", columns=()), list[Row]()
    for item in reader.items():
        if isinstance(item, Table) or len(rows) == _ROWS:
            yield table, rows
            rows = []
        if isinstance(item, Table):
            table = item
        else:
            rows.append(item)
    yield table, rows


def _number_on(connection: Connection) -> None:
    """PostgreSQL counts rows by itself, from 1 unless it is told."""
    if connection.dialect.name == "postgresql":
        connection.execute(
            text(
                "SELECT setval(pg_get_serial_sequence('intents', 'arrival'),"
                " (SELECT coalesce(max(arrival), 0) + 1 FROM intents), false)"
            )
        )


def _tell(connection: Connection, origin: Origin, now_ms: int) -> None:
    """The next start finds what it needs to look around; admins find it in the list of changes."""
    event = Event(
        at_ms=Millis(now_ms),
        kind=RESTORED,
        by="restore",
        text=f"A backup of GPU Commons {origin.version} was restored into this database.",
        data={"backup_ms": origin.made_ms, "version": origin.version, "head": origin.head},
    )
    row = connection.execute(sa.select(leader)).one()
    lead = cluster.Lead(last_event=int(row.last_event), commit=int(row.commits) + 1)
    history.number_events(connection, lead, Changes(now_ms=row.now_ms, events=(event,)))


def _there(connection: Connection) -> sa.MetaData:
    """Those of our tables that exist: another program may have its own beside them."""
    found = sa.MetaData()
    names = set(sa.inspect(connection).get_table_names()) & set(_NAMES)
    found.reflect(connection, only=sorted(names))
    return found


#: ``points`` became ``curve_points``.
_NAMES = (*metadata.tables, "points")


@contextmanager
def _open(url: str) -> Iterator[Engine]:
    engine = connected(url, alone=True)
    try:
        yield engine
    except DBAPIError as error:
        raise Unavailable(f"The database does not answer: {error.orig}") from error
    finally:
        engine.dispose()


@contextmanager
def _one_moment(engine: Engine) -> Iterator[Connection]:
    with engine.connect() as connection:
        if engine.dialect.name == "postgresql":
            connection.execution_options(
                isolation_level="REPEATABLE READ", postgresql_readonly=True
            )
            # Whoever takes the file may be slow.
            connection.execute(text("SET LOCAL idle_in_transaction_session_timeout = '1h'"))
        yield connection
