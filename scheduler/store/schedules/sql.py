"""Schedules in SQL: owners and the leader write columns of their own."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Select, func, or_, select, tuple_

from gpucommons.scheduler.core.model.types import Millis, UserName, WorkloadId
from gpucommons.scheduler.principal import Sight
from gpucommons.scheduler.schedules.promoting import promoted_jobs
from gpucommons.scheduler.schedules.schedule import (
    Schedule,
    Scheduled,
    ScheduleId,
    Standing,
    too_many,
)
from gpucommons.scheduler.store.schedules.base import Epoch, name_taken
from gpucommons.scheduler.store.sql.intents import take_turn
from gpucommons.scheduler.store.sql.owner_documents import OwnerDocuments
from gpucommons.scheduler.store.sql.transactions import Transactions
from gpucommons.scheduler.store.tables import schedules


class SqlSchedules:
    """See :class:`.base.ScheduleStore`."""

    def __init__(self, transactions: Transactions) -> None:
        self._rows = OwnerDocuments(
            transactions, schedules, document=Schedule, standing=Standing, name_taken=name_taken
        )

    def put(
        self,
        schedule: Schedule,
        *,
        next_ms: Millis | None,
        before: Schedule | None = None,
        most: int | None = None,
    ) -> None:
        """Add one, or replace what was written before."""
        self._rows.put(
            schedule.schedule_id,
            schedule,
            next_ms=next_ms,
            before=before,
            check_count=lambda connection: _check_count(connection, schedule.owner, most),
        )

    def all(self, owner: UserName | None = None) -> tuple[Scheduled, ...]:
        """By owner and name."""
        statement = select(schedules).order_by(schedules.c.owner, schedules.c.name)
        return self._read(
            statement if owner is None else statement.where(schedules.c.owner == owner)
        )

    def promoted(self) -> frozenset[WorkloadId]:
        """Jobs whose models are promoted; most schedules promote nothing, and are not read."""
        by_hand = schedules.c.document.contains('"chosen":{')
        by_rule = schedules.c.standing.contains('"promoted":{')
        return promoted_jobs(self._read(select(schedules).where(or_(by_hand, by_rule))))

    def page(
        self, sight: Sight, *, after: tuple[str, str], limit: int, name: str | None = None
    ) -> tuple[Scheduled, ...]:
        """By owner and name."""
        key = (schedules.c.owner, schedules.c.name)
        statement = select(schedules).where(tuple_(*key) > after).order_by(*key).limit(limit)
        if name is not None:
            statement = statement.where(schedules.c.name == name)
        if sight.teams is not None:
            seen = (schedules.c.team.in_(sorted(sight.teams)), schedules.c.owner == sight.owner)
            statement = statement.where(or_(*seen))
        return self._read(statement)

    def due(self, now_ms: Millis) -> tuple[Scheduled, ...]:
        """Soonest first."""
        return tuple(_scheduled(*one) for one in self._rows.due(now_ms))

    def stand(
        self, epoch: Epoch, scheduled: Scheduled, standing: Standing, *, next_ms: Millis | None
    ) -> bool:
        """Write where one stands."""
        schedule = scheduled.schedule
        return self._rows.stand(epoch, schedule.schedule_id, schedule, standing, next_ms=next_ms)

    def drop(self, schedule_id: ScheduleId) -> None:
        """Forget one."""
        self._rows.drop(schedule_id)

    def _read(self, statement: Select[Any]) -> tuple[Scheduled, ...]:
        return tuple(_scheduled(*one) for one in self._rows.read(statement))


def _scheduled(schedule: Schedule, standing: Standing) -> Scheduled:
    return Scheduled(schedule=schedule, standing=standing)


def _check_count(connection: Connection, owner: UserName, most: int | None) -> None:
    """Room for one more, which nobody else takes until the commit."""
    if most is None:
        return
    take_turn(connection, owner)
    of_owner = select(func.count()).select_from(schedules).where(schedules.c.owner == owner)
    count = connection.execute(of_owner).scalar_one()
    if count >= most:
        raise too_many(owner, count)
