"""How the parts of a store that speak SQL reach its database, whichever it is, and one that has no disk."""

from __future__ import annotations

import sqlite3
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Protocol, TypeVar

from sqlalchemy import Connection, Engine, StaticPool, create_engine, create_mock_engine
from sqlalchemy.dialects import sqlite

from gpucommons.scheduler.store.schedules.base import Epoch
from gpucommons.scheduler.store.tables import metadata

T = TypeVar("T")


class Reads(Protocol):
    """Runs a query in a transaction."""

    def __call__(self, query: Callable[[Connection], T]) -> T:
        """What the query gives."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Transactions:
    """Those of one store."""

    read: Reads
    writing: Callable[[], AbstractContextManager[Connection]]
    #: Of the leader alone.
    leading: Callable[[Epoch], AbstractContextManager[Connection]]


class WithoutDisk:
    """SQLite in memory, gone with the store that has it: made when it is first used, as few tests do.

    ``check_lead`` raises for an epoch that is over.
    """

    def __init__(self, check_lead: Callable[[Epoch], None]) -> None:
        self._check_lead = check_lead
        self._lock = threading.RLock()

    def transactions(self) -> Transactions:
        """One after the other: there is one connection."""
        return Transactions(read=self._read, writing=self._writing, leading=self._leading)

    @cached_property
    def _engine(self) -> Engine:
        engine = create_engine("sqlite://", poolclass=StaticPool, creator=_with_tables)
        weakref.finalize(self, engine.dispose)
        return engine

    def _read(self, query: Callable[[Connection], T]) -> T:
        with self._lock, self._engine.connect() as connection:
            return query(connection)

    @contextmanager
    def _writing(self) -> Iterator[Connection]:
        with self._lock, self._engine.begin() as connection:
            yield connection

    @contextmanager
    def _leading(self, epoch: Epoch) -> Iterator[Connection]:
        with self._lock:
            self._check_lead(epoch)
            with self._engine.begin() as connection:
                yield connection


def _with_tables() -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:", check_same_thread=False)
    connection.executescript(_tables())
    return connection


@cache
def _tables() -> str:
    """Compiled once: every loop of a test or a simulation makes them, and that takes 20 times as long."""
    made: list[str] = []
    dialect = sqlite.dialect()
    engine = create_mock_engine(
        "sqlite://", lambda one, *_: made.append(str(one.compile(dialect=dialect)))
    )
    metadata.create_all(engine, checkfirst=False)
    return ";".join(made)
