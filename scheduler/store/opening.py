"""From an address to a store."""

from __future__ import annotations

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
