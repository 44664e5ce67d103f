"""From an address to a store."""

from __future__ import annotations

from gpucommons.scheduler.errors import Unavailable
from gpucommons.scheduler.store.base import Store
from gpucommons.scheduler.store.memory import MemoryStore


def open_store(url: str) -> Store:
    """Open ``sqlite:///PATH``, ``postgresql://HOST/NAME`` or ``memory:``; tables are made on the way.

    Raises
    ------
    BadRequest
        When that is no store.
    Unavailable
        When it does not answer.
    """
    if url == "memory:":
        return MemoryStore()
    from gpucommons.scheduler.store.sql.store import SqlStore  # noqa: PLC0415 - simulations need no SQL

    return SqlStore(url)


def is_led(url: str) -> bool:
    """Whether another process leads this SQLite store; of others it is not known.

    The store itself is not opened: a newer version would change its tables.
    """
    if url == "memory:":
        return False
    from gpucommons.scheduler.store.sql.engine import leader_lock  # noqa: PLC0415 - as above

    lock = leader_lock(url)
    if lock is None:
        return False
    try:
        lock.acquire()
    except Unavailable:
        return True
    lock.release()
    return False


def check_tables(url: str) -> None:
    """See that a store of SQL is one that this version can open; it is neither changed nor kept open.

    Raises
    ------
    BadRequest
        When a newer version has made its tables.
    """
    from gpucommons.scheduler.store.sql import engine  # noqa: PLC0415 - as above

    engine.check_tables(url)
