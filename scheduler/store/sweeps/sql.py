"""Sweeps in SQL: owners and the leader write columns of their own, trials have a table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Select, delete, insert, select, update

from gpucommons.scheduler.core.model.types import UserName
from gpucommons.scheduler.parents import ParentId
from gpucommons.scheduler.store.codec import decode, encode
from gpucommons.scheduler.store.schedules.base import Epoch
from gpucommons.scheduler.store.schedules.sql import Reads
from gpucommons.scheduler.store.sql_intents import insert_into
from gpucommons.scheduler.store.tables import sweeps, trials
from gpucommons.scheduler.sweeps.sweep import Kept, Standing, Sweep, Trial


@dataclass(frozen=True, kw_only=True, slots=True)
class SqlSweeps:
    """See :class:`.base.SweepStore`. Transactions are the store's."""

    read: Reads
    writing: Callable[[], AbstractContextManager[Connection]]
    #: A transaction of the leader alone.
    leading: Callable[[Epoch], AbstractContextManager[Connection]]

    def put(self, sweep: Sweep) -> None:
        """Add one, or replace what its owner wrote."""
        values: dict[str, Any] = {"document": encode(sweep), "live": True}
        new = {
            "sweep_id": sweep.sweep_id,
            "owner": sweep.owner,
            "made_ms": sweep.made_ms,
            "standing": encode(Standing()),
        }
        with self.writing() as connection:
            mine = sweeps.c.sweep_id == sweep.sweep_id
            if not connection.execute(update(sweeps).where(mine).values(values)).rowcount:
                connection.execute(insert(sweeps).values(values | new))

    def one(self, sweep_id: ParentId) -> Kept | None:
        """One sweep."""
        found = self._read(select(sweeps).where(sweeps.c.sweep_id == sweep_id))
        return found[0] if found else None

    def all(self, owner: UserName | None = None) -> tuple[Kept, ...]:
        """Newest first."""
        statement = select(sweeps).order_by(sweeps.c.made_ms.desc(), sweeps.c.sweep_id.desc())
        return self._read(statement if owner is None else statement.where(sweeps.c.owner == owner))

    def live(self) -> tuple[Kept, ...]:
        """Oldest first."""
        oldest = select(sweeps).order_by(sweeps.c.made_ms, sweeps.c.sweep_id)
        return self._read(oldest.where(sweeps.c.live))

    def trials(self, sweep_id: ParentId) -> tuple[Trial, ...]:
        """By number."""
        statement = (
            select(trials.c.document).where(trials.c.sweep_id == sweep_id).order_by(trials.c.number)
        )
        found = self.read(lambda connection: connection.execute(statement).scalars().all())
        return tuple(decode(Trial, document) for document in found)

    def stand(self, epoch: Epoch, kept: Kept, trials_: Sequence[Trial]) -> None:
        """Write where it stands."""
        sweep_id = kept.sweep.sweep_id
        mine = sweeps.c.sweep_id == sweep_id
        with self.leading(epoch) as connection:
            written = select(sweeps.c.document).where(mine).with_for_update()
            document = connection.execute(written).scalar_one_or_none()
            if document is None:
                return
            values: dict[str, Any] = {"standing": encode(kept.standing)}
            if kept.standing.ended_ms is not None and decode(Sweep, document) == kept.sweep:
                values["live"] = False
            connection.execute(update(sweeps).where(mine).values(values))
            if trials_:
                rows = [
                    {"sweep_id": sweep_id, "number": one.number, "document": encode(one)}
                    for one in trials_
                ]
                statement = insert_into(connection)(trials)
                connection.execute(
                    statement.on_conflict_do_update(
                        index_elements=[trials.c.sweep_id, trials.c.number],
                        set_={"document": statement.excluded["document"]},
                    ),
                    rows,
                )

    def drop(self, sweep_id: ParentId) -> None:
        """Forget one."""
        with self.writing() as connection:
            connection.execute(delete(trials).where(trials.c.sweep_id == sweep_id))
            connection.execute(delete(sweeps).where(sweeps.c.sweep_id == sweep_id))

    def _read(self, statement: Select[Any]) -> tuple[Kept, ...]:
        rows = self.read(lambda connection: connection.execute(statement).mappings().all())
        return tuple(
            Kept(
                sweep=decode(Sweep, row["document"]),
                standing=decode(Standing, row["standing"]),
            )
            for row in rows
        )
