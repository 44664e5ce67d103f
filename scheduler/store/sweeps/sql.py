"""Sweeps in SQL: owners and the leader write columns of their own, trials have a table."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from sqlalchemy import (
    Connection,
    Select,
    bindparam,
    delete,
    exc,
    func,
    insert,
    or_,
    select,
    tuple_,
    update,
)

from gpucommons.scheduler.core.model.types import Millis, UserName
from gpucommons.scheduler.parents import ParentId
from gpucommons.scheduler.principal import Sight
from gpucommons.scheduler.store.codec import decode, encode
from gpucommons.scheduler.store.schedules.base import Epoch, changed_meanwhile
from gpucommons.scheduler.store.sql.intents import take_turn
from gpucommons.scheduler.store.sql.replacing import put_rows
from gpucommons.scheduler.store.sql.transactions import Transactions
from gpucommons.scheduler.store.tables import sweeps, trials
from gpucommons.scheduler.sweeps.sweep import Kept, Standing, Sweep, Trial, too_many


class SqlSweeps:
    """See :class:`.base.SweepStore`."""

    def __init__(self, transactions: Transactions) -> None:
        self._in = transactions

    def put(self, sweep: Sweep, *, before: Sweep | None = None, most: int | None = None) -> None:
        """Add one, or replace what was written before."""
        values: dict[str, Any] = {"document": encode(sweep), "live": True}
        new = {
            "sweep_id": sweep.sweep_id,
            "owner": sweep.owner,
            "team": sweep.team,
            "name": sweep.name,
            "made_ms": sweep.made_ms,
            "standing": encode(Standing()),
        }
        try:
            with self._in.writing() as connection:
                if _written(connection, sweep.sweep_id) != before:
                    raise changed_meanwhile(sweep.name)
                if most is not None:
                    _check_count(connection, sweep, most)
                if before is None:
                    connection.execute(insert(sweeps).values(values | new))
                else:
                    connection.execute(_CHANGE, {**values, "of": sweep.sweep_id})
        except exc.IntegrityError:
            raise changed_meanwhile(sweep.name) from None  # another added it just now

    def one(self, sweep_id: ParentId) -> Kept | None:
        """One sweep."""
        found = self._read(select(sweeps).where(sweeps.c.sweep_id == sweep_id))
        return found[0] if found else None

    def named(self, name: str) -> tuple[Kept, ...]:
        """Newest first."""
        return self._read(_NEWEST.where(sweeps.c.name == name))

    def page(
        self,
        sight: Sight,
        *,
        before: Kept | None,
        limit: int,
        owner: UserName | None = None,
        live: bool = False,
    ) -> tuple[Kept, ...]:
        """Newest first."""
        statement = _NEWEST.limit(limit)
        if live:
            statement = statement.where(sweeps.c.live)
        if owner is not None:
            statement = statement.where(sweeps.c.owner == owner)
        if before is not None:
            age = (before.sweep.made_ms, before.sweep.sweep_id)
            statement = statement.where(tuple_(sweeps.c.made_ms, sweeps.c.sweep_id) < age)
        if sight.teams is not None:
            seen = (sweeps.c.team.in_(sorted(sight.teams)), sweeps.c.owner == sight.owner)
            statement = statement.where(or_(*seen))
        return self._read(statement)

    def live(self) -> tuple[Kept, ...]:
        """Oldest first."""
        return self._read(_LIVE)

    def size_bytes(self, owner: UserName, *, since_ms: Millis) -> int:
        """As they are kept."""
        size = func.coalesce(func.sum(func.length(sweeps.c.document)), 0)
        mine = select(size).where(sweeps.c.owner == owner, sweeps.c.made_ms > since_ms)
        return int(self._in.read(lambda connection: connection.execute(mine).scalar_one()))

    def trials(self, sweep_id: ParentId) -> tuple[Trial, ...]:
        """By number."""
        asked = {"of": sweep_id}
        found = self._in.read(lambda connection: connection.execute(_TRIALS, asked).scalars().all())
        return tuple(decode(Trial, document) for document in found)

    def stand(self, epoch: Epoch, kept: Kept, trials_: Sequence[Trial]) -> None:
        """Write where it stands."""
        sweep_id = kept.sweep.sweep_id
        with self._in.leading(epoch) as connection:
            row = connection.execute(_AS_IT_STANDS, {"of": sweep_id}).mappings().one_or_none()
            if row is None:
                return
            before, standing = _kept(row["document"], row["standing"]), kept.standing
            values: dict[str, Any] = {}
            # With the best so far over time it may be 30 KB, and trials change far more often.
            if standing != before.standing:
                values |= {"standing": encode(standing), "ended_ms": standing.ended_ms}
            if standing.ended_ms is not None and before.sweep == kept.sweep:
                values["live"] = False
            if values:
                connection.execute(_CHANGE, {**values, "of": sweep_id})
            rows = [
                {"sweep_id": sweep_id, "number": one.number, "document": encode(one)}
                for one in trials_
            ]
            put_rows(connection, trials, rows)

    def needed(self, *, ended_since_ms: Millis) -> frozenset[str]:
        """Of all that are not over for long."""
        ended_ms = sweeps.c.ended_ms
        lately = select(sweeps).where(or_(ended_ms.is_(None), ended_ms >= ended_since_ms))
        found = (one.sweep.snapshot for one in self._read(lately))
        return frozenset(one for one in found if one is not None)

    def prune(self, epoch: Epoch, *, before_ms: Millis) -> None:
        """Forget what ended before."""
        over = (sweeps.c.ended_ms < before_ms, sweeps.c.live.is_(False))
        with self._in.leading(epoch) as connection:
            old = select(sweeps.c.sweep_id).where(*over)
            connection.execute(delete(trials).where(trials.c.sweep_id.in_(old)))
            connection.execute(delete(sweeps).where(*over))

    def _read(self, statement: Select[Any]) -> tuple[Kept, ...]:
        rows = self._in.read(lambda connection: connection.execute(statement).mappings().all())
        return tuple(_kept(row["document"], row["standing"]) for row in rows)


#: Made once: to build a statement costs more than to carry it out.
_MINE = sweeps.c.sweep_id == bindparam("of")
_LIVE = select(sweeps).where(sweeps.c.live).order_by(sweeps.c.made_ms, sweeps.c.sweep_id)
_TRIALS = (
    select(trials.c.document).where(trials.c.sweep_id == bindparam("of")).order_by(trials.c.number)
)
_AS_WRITTEN = select(sweeps.c.document).where(_MINE).with_for_update()
_AS_IT_STANDS = select(sweeps.c.document, sweeps.c.standing).where(_MINE).with_for_update()
_CHANGE = update(sweeps).where(_MINE)
_NEWEST = select(sweeps).order_by(sweeps.c.made_ms.desc(), sweeps.c.sweep_id.desc())


def _check_count(connection: Connection, sweep: Sweep, most: int) -> None:
    """Room for one more that goes on, which nobody else takes until the commit."""
    take_turn(connection, sweep.owner)
    others = (sweeps.c.owner == sweep.owner, sweeps.c.live, sweeps.c.sweep_id != sweep.sweep_id)
    documents = connection.execute(select(sweeps.c.document).where(*others)).scalars()
    count = sum(not decode(Sweep, document).stopped for document in documents)
    if count >= most:
        raise too_many(sweep.owner, count)


def _written(connection: Connection, sweep_id: ParentId) -> Sweep | None:
    """What its owner wrote, kept as it is until the commit; None where it is not there."""
    document = connection.execute(_AS_WRITTEN, {"of": sweep_id}).scalar_one_or_none()
    return None if document is None else _sweep(document)


@lru_cache(maxsize=128)
def _sweep(document: str) -> Sweep:
    """Those that go on are read each second: what is as it was is not decoded again."""
    sweep: Sweep = decode(Sweep, document)
    return sweep


@lru_cache(maxsize=128)
def _kept(document: str, standing: str) -> Kept:
    return Kept(sweep=_sweep(document), standing=decode(Standing, standing))
