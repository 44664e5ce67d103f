"""Quota minutes in SQL, added up by the database."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace

from sqlalchemy import Connection, delete, func, select

from gpucommons.scheduler.core.model.types import Millis
from gpucommons.scheduler.store.quota_minutes.base import FOLDED_MS, QuotaMinute, added_up
from gpucommons.scheduler.store.schedules.base import Epoch
from gpucommons.scheduler.store.sql.intents import insert_into
from gpucommons.scheduler.store.sql.transactions import Transactions
from gpucommons.scheduler.store.tables import quota_minutes

#: So much is folded in one transaction: others write between them.
_FOLDED_AT_ONCE_MS = 96 * FOLDED_MS

_KEYS = (quota_minutes.c.minute_ms, quota_minutes.c.pool, quota_minutes.c.team)
_FOLDED = quota_minutes.c.minute_ms % FOLDED_MS == 0


class SqlQuotaMinutes:
    """See :class:`.base.QuotaMinuteStore`."""

    def __init__(self, transactions: Transactions) -> None:
        self._in = transactions

    def put(self, epoch: Epoch, rows: Sequence[QuotaMinute]) -> None:
        """Add or replace."""
        with self._in.leading(epoch) as connection:
            _write(connection, rows)

    def sums(self, *, from_ms: Millis, to_ms: Millis, step_ms: int) -> tuple[QuotaMinute, ...]:
        """By time, pool and team."""
        return self._in.read(lambda connection: _sums(connection, from_ms, to_ms, step_ms))

    def fold(self, epoch: Epoch, *, before_ms: Millis) -> int:
        """A day at a time, oldest first, until none is left that has minutes."""
        end_ms, count = before_ms - before_ms % FOLDED_MS, 0
        unfolded = select(func.min(quota_minutes.c.minute_ms)).where(
            quota_minutes.c.minute_ms < end_ms, ~_FOLDED
        )
        while (oldest := self._in.read(lambda c: c.execute(unfolded).scalar_one())) is not None:
            from_ms = oldest - oldest % FOLDED_MS
            to_ms = min(from_ms + _FOLDED_AT_ONCE_MS, end_ms)
            with self._in.leading(epoch) as connection:
                count += _fold(connection, Millis(from_ms), Millis(to_ms))
        return count

    def drop(self, epoch: Epoch, *, before_ms: Millis) -> int:
        """Forget what is older."""
        old = delete(quota_minutes).where(quota_minutes.c.minute_ms < before_ms)
        with self._in.leading(epoch) as connection:
            return connection.execute(old).rowcount


def _write(connection: Connection, rows: Sequence[QuotaMinute]) -> None:
    if not rows:
        return
    statement = insert_into(connection)(quota_minutes)
    connection.execute(
        statement.on_conflict_do_update(
            index_elements=list(_KEYS),
            set_={name: statement.excluded[name] for name in ("size", "lent")},
        ),
        [asdict(row) for row in rows],
    )


def _sums(
    connection: Connection, from_ms: Millis, to_ms: Millis, step_ms: int
) -> tuple[QuotaMinute, ...]:
    of = quota_minutes.c
    step = of.minute_ms // step_ms
    statement = (
        select(
            func.min(of.minute_ms).label("minute_ms"),
            of.pool,
            of.team,
            func.sum(of.size).label("size"),
            func.sum(of.lent).label("lent"),
        )
        .where(of.minute_ms >= from_ms, of.minute_ms < to_ms)
        .group_by(step, of.pool, of.team)
    )
    # PostgreSQL adds whole numbers up to decimal ones; each database sorts texts its own way.
    return added_up(
        (
            QuotaMinute(**{**row, "size": int(row["size"]), "lent": int(row["lent"])})
            for row in connection.execute(statement).mappings()
        ),
        step_ms,
    )


def _fold(connection: Connection, from_ms: Millis, to_ms: Millis) -> int:
    folded = [
        replace(row, minute_ms=Millis(row.minute_ms - row.minute_ms % FOLDED_MS))
        for row in _sums(connection, from_ms, to_ms, FOLDED_MS)
    ]
    of = quota_minutes.c.minute_ms
    gone = connection.execute(delete(quota_minutes).where(of >= from_ms, of < to_ms)).rowcount
    _write(connection, folded)
    return gone - len(folded)
