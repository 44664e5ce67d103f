"""Opening a database: connections that are durable and never surprised, and tables up to date.

SQLite is for one scheduler: write-ahead log, full synchronisation (an acknowledged commit survives
a power cut), and a lock file that the leader holds. PostgreSQL serves several replicas.
"""

from __future__ import annotations

import fcntl
import os
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url, text
from sqlalchemy.exc import ArgumentError, DBAPIError

from gpucommons.scheduler.errors import BadRequest, Unavailable

#: The newest migration: tables at it need no look at the migrations (nor 0.2 s for Alembic).
HEAD = "0020"

#: Another process may hold SQLite's write lock for so long.
_BUSY_TIMEOUT_MS = 30_000
#: For a free connection; shorter than a leader's lease and a client's patience.
POOL_TIMEOUT_S = 5
#: Of readers: kept open, and as many again twice while they are needed.
READERS = 5
#: Any number; all our replicas use the same one to migrate one after the other.
_MIGRATION_LOCK = 0x47C0_4401
_MAKING = threading.Lock()

#: A server that is cut off is noticed within seconds: whoever waits for it may hold the lead.
_POSTGRESQL = {
    "connect_timeout": 3,
    "tcp_user_timeout": 5_000,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
}
#: The server, too, gives up a client that is cut off: what a dead leader has locked, its successor
#: waits for. An address's own ``options`` come after these, and so win.
_SERVER = {
    "idle_in_transaction_session_timeout": "10s",
    "lock_timeout": "10s",
    "tcp_keepalives_idle": "5",
    "tcp_keepalives_interval": "2",
    "tcp_keepalives_count": "3",
}

_MIGRATIONS = Path(__file__).parents[1] / "migrations"


def open_engine(url: str) -> Engine:
    """Connect, and bring the tables up to date.

    Raises
    ------
    BadRequest
        When the address cannot be used, or a newer version has made the tables.
    Unavailable
        When the database does not answer.
    """
    engine = connected(url)
    try:
        _migrate(engine)
    except BadRequest:
        engine.dispose()
        raise
    except DBAPIError as error:
        engine.dispose()
        shown = "postgresql:…" if engine.dialect.name == "postgresql" else str(engine.url)
        message = f"The store {shown} cannot be opened: {error.orig}"
        raise Unavailable(message) from error
    return engine


def connected(url: str, *, alone: bool = False) -> Engine:
    """Connect, whatever the tables are; ``alone``: with one connection, for who takes turns.

    Raises
    ------
    BadRequest
        When the address cannot be used.
    """
    address = _address(url)
    try:
        return _engine(address, alone=alone)
    except ImportError as error:
        message = f"PostgreSQL needs its driver ({error}): pip install 'gpucommons[postgresql]'."
        raise BadRequest(message) from error


def _address(url: str) -> URL:
    try:
        address = make_url(url)
    except (ArgumentError, ValueError):
        raise BadRequest(_no_store(url)) from None
    if address.drivername != "sqlite" and "@" in f"{address.host}{address.database}":
        raise BadRequest(_no_store(url))  # half of the password was taken for a host
    if address.drivername in ("postgresql", "postgres"):
        return address.set(drivername="postgresql+psycopg")
    if address.drivername == "sqlite" and address.database in (None, "", ":memory:"):
        message = "SQLite needs a file: use sqlite:///PATH, or memory: for tests."
        raise BadRequest(message)
    if address.drivername not in ("sqlite", "postgresql+psycopg"):
        raise BadRequest(_no_store(url))
    return address


def _no_store(url: str) -> str:
    """What an address that cannot be read begins with is all that is repeated: the rest may be a password."""
    scheme = re.match(r"[a-z0-9+]{1,40}(?=:/)", url)
    shown = f"{scheme[0]}:…" if scheme else "The address"
    return (
        f"{shown} is no store: use sqlite:///PATH or postgresql://USER:PASSWORD@HOST:PORT/NAME, with"
        " @ as %40, : as %3A and / as %2F in a password."
    )


def _engine(address: URL, *, alone: bool = False) -> Engine:
    pool = {
        "pool_timeout": POOL_TIMEOUT_S,
        "pool_size": 1 if alone else READERS,
        "max_overflow": 0 if alone else 2 * READERS,
    }
    if address.drivername != "sqlite":
        chosen = {name: value for name, value in _POSTGRESQL.items() if name not in address.query}
        options = [f"-c {name}={value}" for name, value in _SERVER.items()]
        own = address.query.get("options", ())
        options += [own] if isinstance(own, str) else own
        arguments = {**chosen, "options": " ".join(options)}
        return create_engine(address, pool_pre_ping=True, connect_args=arguments, **pool)
    _make_once(database_file(address).resolve())
    engine = create_engine(address, **pool)
    event.listen(engine, "connect", _prepare_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _make_once(path: Path) -> None:
    """Make the file so that nobody else can read it; the log beside it takes over the mode.

    A file that is there is not opened: closing any descriptor of a file drops every POSIX lock that
    the process holds on it. SQLite's own would go with them, and the next foreign reader, taking
    itself for the last one, would delete the log into which this process goes on writing.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    # Another thread connects after the new file's descriptor is closed, and not before.
    with _MAKING, suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))


def database_file(address: URL) -> Path:
    """The file of a SQLite address."""
    return Path(str(address.database))


def _prepare_sqlite(connection: Any, _record: object) -> None:
    # The driver would begin transactions of its own, and only before some statements.
    connection.isolation_level = None
    for pragma in (
        "journal_mode=WAL",
        "synchronous=FULL",
        "foreign_keys=ON",
        f"busy_timeout={_BUSY_TIMEOUT_MS}",
    ):
        connection.execute(f"PRAGMA {pragma}").close()


def _begin_sqlite(connection: Connection) -> None:
    writes = connection.get_execution_options().get("writes", False)
    # A transaction that reads first and writes later could find its lock taken in between.
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


@contextmanager
def writing(engine: Engine) -> Iterator[Connection]:
    """One transaction that writes."""
    with engine.connect().execution_options(writes=True) as connection, connection.begin():
        yield connection


def _migrate(engine: Engine) -> None:
    with writing(engine) as connection:
        take_turns(connection)
        found = revision(connection)
        _check_known(found)
        if found != HEAD:
            upgrade(connection, HEAD)


def check_tables(url: str) -> None:
    """See, and change nothing, that these tables are ours to work with.

    Raises
    ------
    BadRequest
        When a newer version has made them.
    """
    engine = connected(url)
    try:
        with engine.connect() as connection:
            _check_known(revision(connection))
    finally:
        engine.dispose()


def _check_known(found: str | None) -> None:
    """Revisions are numbers that grow. What a newer version wrote, an older one may misread."""
    if found is not None and found > HEAD:
        message = (
            f"A newer version of GPU Commons has made these tables ({found}; this one knows {HEAD})."
            " Nothing was changed: start that version again, or restore a backup of this one's time"
            " into a new database."
        )
        raise BadRequest(message)


def take_turns(connection: Connection) -> None:
    """Nobody else makes or changes tables until this transaction ends; SQLite has one writer anyway."""
    if connection.dialect.name == "postgresql":
        # Another replica may be at it for minutes, and so may we.
        connection.execute(text("SET LOCAL lock_timeout = 0"))
        connection.execute(text("SET LOCAL idle_in_transaction_session_timeout = '5min'"))
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _MIGRATION_LOCK})


def upgrade(connection: Connection, revision: str) -> None:
    """Bring the tables to a revision."""
    from alembic import command  # noqa: PLC0415 - slow to import, seldom needed
    from alembic.config import Config  # noqa: PLC0415 - as above

    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    command.upgrade(config, revision)


def revision(connection: Connection) -> str | None:
    """The newest migration of the tables that are there; None without any."""
    if not connection.dialect.has_table(connection, "alembic_version"):
        return None
    found = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
    return None if found is None else str(found)


class LeaderLock:
    """Only one process leads a SQLite store; the system frees the lock when that process dies."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor: int | None = None

    def acquire(self) -> None:
        """Take the lock, or find that we have it.

        Raises
        ------
        Unavailable
            When another process has it.
        """
        if self._descriptor is not None:
            return
        descriptor = os.open(self._path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            message = f"Another scheduler holds {self._path}: stop it first, or use PostgreSQL."
            raise Unavailable(message) from None
        self._descriptor = descriptor

    def release(self) -> None:
        """Let go; whoever asks again, perhaps at the same moment, closes nothing of another's."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)


def leader_lock(url: str) -> LeaderLock | None:
    """The one of a SQLite store; None for another."""
    address = _address(url)
    if address.get_backend_name() != "sqlite":
        return None
    file = database_file(address)
    file.parent.mkdir(parents=True, exist_ok=True)
    return LeaderLock(file.with_name(f"{file.name}.leader"))
